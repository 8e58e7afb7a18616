"""The doctor: rules that find what is wrong with a host, a container or an image before hours are lost."""
