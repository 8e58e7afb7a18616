"""Publishing: push a candidate, gate it by its digest, promote that very digest."""
