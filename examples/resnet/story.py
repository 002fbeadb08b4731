"""Port a CNN: ResNet-18 of transformers against that of paddle.vision."""

# %% [markdown]
# # Port a CNN
#
# The reference is the ResNet-18 of `transformers`, the candidate that of `paddle.vision`. They have other module trees and other names.
# `compare_models` builds and runs each model in a process of its own, the candidate with the reference's weights, and compares the two dumps.

# %%
import padiff

IMAGE = "auto:1x3x32x32"  # drawn, the same on both sides

right = padiff.compare_models("torch_model.py:build", "paddle_model.py:build", IMAGE)
assert right
right

# %% [markdown]
# Both programs compute the same function from the same leaves. Now one BatchNorm of the port gets the epsilon 1e-3, as a typing error would.

# %%
wrong = padiff.compare_models("torch_model.py:build", "paddle_model.py:build_faulty", IMAGE)
assert not wrong
print(wrong.first.module)
print(wrong.first.cause)

# %% [markdown]
# One module is to blame, and the cause is proved: with the reference's number in its place, the port computes what the reference computes.
# How many others only inherited the error?

# %%
assert "epsilon of batch_norm: 0.001 where the reference has 1e-05" in wrong.first.cause
print(len(wrong.origins), "origin of", len(wrong.divergences), "divergences")
assert len(wrong.origins) == 1
wrong
