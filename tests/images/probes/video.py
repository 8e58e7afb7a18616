"""Write a real mp4 with PyAV and read it back: with PyAV alone, and through LeRobot's reader as training does.

Prints what was seen.
"""

import json
import tempfile
from pathlib import Path

import av
import numpy as np
from lerobot.common.datasets.video_utils import decode_video_frames

FPS, FRAMES, SIZE = 10, 20, 64
path = Path(tempfile.mkdtemp(), "video.mp4")
with av.open(str(path), "w") as container:
    stream = container.add_stream("h264", rate=FPS, options={"crf": "10"})
    stream.width = stream.height = SIZE
    stream.pix_fmt = "yuv420p"
    for index in range(FRAMES):
        picture = np.full((SIZE, SIZE, 3), 10 * index + 20, dtype=np.uint8)  # every frame has a grey of its own
        for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
            container.mux(packet)
    for packet in stream.encode():
        container.mux(packet)

with av.open(str(path)) as container:
    plain = [float(frame.to_ndarray(format="rgb24").mean()) for frame in container.decode(video=0)]
chosen = [3, 11, 17]
tensor = decode_video_frames(path, [index / FPS for index in chosen], 0.01, "pyav")
print(
    json.dumps(
        {
            "plain": plain,
            "expected": [10 * index + 20 for index in range(FRAMES)],
            "chosen": [10 * index + 20 for index in chosen],
            "lerobot": [float(value) * 255 for value in tensor.mean(dim=(1, 2, 3))],
            "shape": list(tensor.shape),
        }
    )
)
