"""Images on their way to a host: pulled from a registry, or carried in a bundle where there is no network."""
