"""Drive RLinf's four RECAP steps as one resumable run: returns, value SFT, advantages, CFG RL."""
