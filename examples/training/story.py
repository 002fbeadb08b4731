"""Align a training: three steps of a small Qwen2 in torch and in Paddle, with a planted fault."""

# %% [markdown]
# # Align a training
#
# The models are those of `examples/llm`; their forward and backward passes agree. Here both are trained for three steps with AdamW and a cosine
# schedule. In the first version of the port, weight decay also reaches biases and norms.

# %%
import sys

sys.path.insert(0, "../llm")

import paddle
import paddle_model
import paddle_training
import torch
import torch_model
import torch_training

import padiff

draw = torch.Generator().manual_seed(0)
BATCHES = [torch.randint(0, 200, (2, 2, 12), generator=draw) for _ in range(3)]

# %% [markdown]
# An ordinary loop, inside `padiff.record`. `recorder.step` ends a step.

# %%
reference = torch_model.build().train()
start = {name: weight.clone() for name, weight in reference.state_dict().items()}
optimizer = torch_training.optimizer(reference)
schedule = torch_training.schedule(optimizer)
with padiff.record(reference, name="train_torch", optimizer=optimizer) as recorder:
    for ids, labels in BATCHES:
        loss = torch_training.loss(reference(input_ids=ids), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        recorder.step(loss=loss)
reference.load_state_dict(start)


# %% [markdown]
# The same loop in Paddle, from the same weights.


# %%
def train_port(make_optimizer, name):
    """Record three steps of the port and compare them with the reference."""
    candidate = paddle_model.build()
    padiff.assign_weight(reference, candidate)
    candidate.train()
    optimizer = make_optimizer(candidate)
    schedule = paddle_training.schedule(optimizer)
    with padiff.record(candidate, name=name, optimizer=optimizer) as recorder:
        for ids, labels in BATCHES:
            optimizer.set_lr(schedule())
            logits = candidate(paddle.to_tensor(ids.numpy()))
            loss = paddle_training.loss(logits, paddle.to_tensor(labels.numpy()))
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.clear_grad()
            recorder.step(loss=loss)
    return padiff.compare("padiff_dump/train_torch", f"padiff_dump/{name}")


wrong = train_port(paddle_training.optimizer_faulty, "train_faulty")
assert not wrong
wrong

# %% [markdown]
# The first divergence is in the update of the first step. Forward pass, loss and gradients of that step agree; the options of the two optimizers do not.

# %%
print(wrong.first.phase, wrong.first.module)
assert wrong.first.phase == "update"
assert "weight_decay" in wrong.report(max_rows=0)

# %%
right = train_port(paddle_training.optimizer, "train_paddle")
assert right
right
