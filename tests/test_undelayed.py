"""What `workbench lab` adds to Jupyter's server: connections that send at once."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

from workbench import lab, undelayed


class Handler:
    """A websocket that remembers what was asked of it."""

    def __init__(self):
        self.asked = []

    def set_nodelay(self, value):
        self.asked.append(value)


class Plain:
    """A connection of some other kind, as a gateway's is."""

    def __init__(self, websocket_handler):
        self.websocket_handler = websocket_handler

    def connect(self):
        return "connected"


def test_the_extension_makes_whatever_connections_there_are_prompt():
    settings = {undelayed.SETTING: Plain}
    undelayed._load_jupyter_server_extension(
        SimpleNamespace(web_app=SimpleNamespace(settings=settings))
    )
    handler = Handler()
    assert settings[undelayed.SETTING](handler).connect() == "connected"
    assert handler.asked == [True]


def test_lab_loads_it_beside_the_users_own_configuration(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    ours, mine = lab.environment()["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert mine == "/mine"
    (file,) = (lab.CONFIG / "jupyter_server_config.d").iterdir()
    assert str(lab.CONFIG) == ours
    loaded = json.loads(file.read_text())["ServerApp"]["jpserver_extensions"]
    assert loaded == {undelayed.__name__: True}
