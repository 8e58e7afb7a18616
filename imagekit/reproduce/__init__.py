"""Whether two builds of the same inputs are the same bytes, and where they first differ."""
