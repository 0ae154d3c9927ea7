"""What docs/platforms.md says is built, is built, and nothing else."""

import re

from building import ROOT
from platforms import PLATFORMS


def test_the_page_names_every_package_of_every_platform() -> None:
    page = (ROOT / "docs" / "platforms.md").read_text()
    told = set(re.findall(r"`((?:many|musl)linux_\w+|linux-\w+-\w+)`", page))
    assert told == {name for one in PLATFORMS for name in (one.wheel, one.npm)}
    assert set(re.findall(r"`(linux-\w+)`", page)) == {f"linux-{one.machine}" for one in PLATFORMS}
