"""Host side: plan, build, test and publish the images. Never imported by what runs inside them."""
