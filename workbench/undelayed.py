"""A kernel's answers reach the browser at once: an extension of Jupyter's server.

Jupyter leaves Nagle's algorithm on: a small message waits until the browser has acknowledged the
one before, which it puts off for up to 40 ms. A kernel says "busy" before each answer, so a zoomed
timeline would stand still for that long. `workbench lab` loads this; elsewhere,
`jupyter server extension enable workbench.undelayed` does.
"""

from __future__ import annotations

from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

SETTING = "kernel_websocket_connection_class"


class Prompt:
    """What makes the connection between a browser and a kernel send whatever it has."""

    websocket_handler: Any

    def connect(self) -> Any:
        """Connect, with TCP_NODELAY."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()  # type: ignore[misc]


class Undelayed(Prompt, ZMQChannelsWebsocketConnection):
    """Jupyter's own connection, prompt."""


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(app: Any) -> None:
    """Make the connections prompt, of whatever kind they are."""
    settings = app.web_app.settings
    if (kind := settings.get(SETTING)) is not None:
        settings[SETTING] = type("Undelayed", (Prompt, kind), {})
