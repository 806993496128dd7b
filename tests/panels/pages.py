"""Reads a page that `panels.page` wrote."""

import json
import re

from views import unpacked


def element(page, kind):
    text = re.search(rf"application/workbench-{kind}'>(.*?)</script>", page, re.DOTALL)[1]
    return json.loads(text)


def carried(page):
    """Return tables (HTML), pictures (Bokeh's items) and links of a page."""
    data = element(page, "panes")
    pictures = {
        name: {look: json.loads(unpacked.text(item)) for look, item in looks.items()}
        for name, looks in data["pictures"].items()
    }
    tables = {name: unpacked.text(table) for name, table in data["tables"].items()}
    links = json.loads(unpacked.text(data["links"]))
    return {"tables": tables, "pictures": pictures, "links": links, "rows": data["rows"]}
