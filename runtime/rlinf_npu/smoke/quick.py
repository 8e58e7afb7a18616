"""`smoke quick`: import, count, allocate and train one layer on one card. Seconds, not minutes."""

import time

from rlinf_npu.npufix.symptoms import advice
from rlinf_npu.smoke.report import Case

STEPS = 5


def quick(device: str) -> list[Case]:
    """Try one card; return one case a stage, the last of them failed when something is wrong."""
    cases: list[Case] = []
    for name, stage in (("import torch and torch_npu", _imports), ("cards", _cards), ("train on the card", _train)):
        started = time.monotonic()
        try:
            detail, status = stage(device), "passed"
        except Exception as error:  # whatever a driver or a library says is the finding
            what = f"{type(error).__name__}: {str(error).strip()}"
            told = advice(what)
            detail, status = f"{what}; {told}" if told else what, "failed"
        cases.append(Case(name, status, detail, time.monotonic() - started))
        if status == "failed":
            break
    return cases


def _imports(device: str) -> str:
    import torch
    import torch_npu

    return f"torch {torch.__version__}, torch_npu {torch_npu.__version__}"


def _cards(device: str) -> str:
    import torch

    count = torch.npu.device_count()
    if count < 1:
        raise RuntimeError("torch_npu sees no card: `doctor` says what is missing")
    return f"{count} x {torch.npu.get_device_name(device)}"


def _train(device: str) -> str:
    """A few SGD steps on one batch must lower the loss."""
    import torch

    torch.manual_seed(0)
    inputs, targets = torch.randn(32, 16).to(device), torch.randn(32, 4).to(device)
    model = torch.nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if not losses[-1] < losses[0]:
        raise RuntimeError(f"the loss does not fall: {losses}")
    return f"{device}: loss {losses[0]:.4f} -> {losses[-1]:.4f}"
