"""On one card: allocate, copy, an SGD step. With an argument: all_reduce between so many processes instead.

Prints what came out as JSON.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_npu  # noqa: F401


def one_card():
    """Numbers that can be checked from outside."""
    before = torch.npu.memory_allocated()
    ones = torch.ones(1024, 256, device="npu:0")
    taken = torch.npu.memory_allocated() - before
    there_and_back = torch.arange(12.0).reshape(3, 4)
    copied = torch.equal(there_and_back.npu().cpu(), there_and_back)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, losses = torch.randn(64, 8), []
    y = x.sum(1, keepdim=True)
    for _ in range(30):
        loss = torch.nn.functional.mse_loss(model(x.npu()), y.npu())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"sum": ones.sum().item(), "bytes": taken, "copied": copied, "losses": losses, "device": str(loss.device)}


def reduce_worker(rank, size, folder):
    """One rank: an all_reduce and a broadcast over hccl, the results written to a file."""
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    numbers = torch.full((5,), float(rank + 1)).npu()
    dist.all_reduce(numbers)
    word = torch.tensor([float(rank)]).npu()
    dist.broadcast(word, src=size - 1)
    result = {
        "sum": numbers.cpu().tolist(),
        "word": word.item(),
        "device": str(numbers.device),
        "backend": dist.get_backend(),
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        size, folder = int(sys.argv[1]), sys.argv[2]
        Path(folder).mkdir(parents=True)
        mp.spawn(reduce_worker, (size, folder), nprocs=size)
        print(json.dumps([json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(size)]))
    else:
        print(json.dumps(one_card()))
