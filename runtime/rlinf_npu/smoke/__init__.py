"""Prove an image: tiny fixtures, the four steps on them, and a quick check of one card."""
