"""Render one frame without a screen, with MuJoCo itself and through robosuite's environment of LIBERO's kind.

Prints brightness and variety of the pictures.
"""

import json

import mujoco

SCENE = """
<mujoco><worldbody>
  <light pos="0 0 3"/><geom type="plane" size="2 2 .1" rgba=".2 .4 .8 1"/>
  <body pos="0 0 .5"><geom type="box" size=".3 .3 .3" rgba="1 0 0 1"/></body>
</worldbody></mujoco>"""


def seen(picture):
    """Numbers that a black or an empty frame does not have."""
    return {
        "shape": list(picture.shape),
        "mean": float(picture.mean()),
        "colours": len({tuple(p) for p in picture.reshape(-1, 3)}),
    }


model = mujoco.MjModel.from_xml_string(SCENE)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 96, 128) as renderer:
    renderer.update_scene(data)
    plain = renderer.render()

import robosuite  # noqa: E402  # MuJoCo has to choose its backend first, as it does in RLinf

environment = robosuite.make(
    "Lift",
    robots="Panda",
    has_renderer=False,
    has_offscreen_renderer=True,
    use_camera_obs=True,
    camera_names="agentview",
    camera_heights=64,
    camera_widths=64,
)
arm = environment.reset()["agentview_image"]
environment.close()
print(json.dumps({"mujoco": seen(plain), "robosuite": seen(arm)}))
