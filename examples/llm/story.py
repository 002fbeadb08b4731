"""Port a language model: Qwen2 of transformers against a port by hand, with a planted fault."""

# %% [markdown]
# # Port a language model
#
# The reference is a small Qwen2 of `transformers`, the candidate a port to Paddle that somebody wrote by hand. In its first version each head of
# queries gets the keys and values of the wrong group: the port writes `tile` where the reference repeats each group. All shapes are right.

# %%
import paddle
import paddle_model
import torch
import torch_model

import padiff

IDS = torch.randint(0, 200, (2, 12), generator=torch.Generator().manual_seed(0))

# %% [markdown]
# Record the reference: forward, loss, backward.

# %%
reference = torch_model.build().eval()
with padiff.record(reference, name="qwen_torch") as recorder:
    loss = reference(input_ids=IDS).logits.square().mean()
    recorder.loss(loss)
    loss.backward()


# %% [markdown]
# The port gets the same ids and the reference's weights.


# %%
def run_port(build, name):
    """Record a version of the port and compare it with the reference."""
    candidate = build()
    candidate.eval()
    padiff.assign_weight(reference, candidate)
    with padiff.record(candidate, name=name) as recorder:
        loss = candidate(paddle.to_tensor(IDS.numpy())).square().mean()
        recorder.loss(loss)
        loss.backward()
    return padiff.compare("padiff_dump/qwen_torch", f"padiff_dump/{name}")


wrong = run_port(paddle_model.build_faulty, "qwen_faulty")
assert not wrong
print(wrong.first.module)
print(wrong.first.cause)

# %% [markdown]
# The cause names both operators, with the lines of both sources. Repaired:

# %%
assert "tile" in wrong.first.cause
right = run_port(paddle_model.build, "qwen_paddle")
assert right
right
