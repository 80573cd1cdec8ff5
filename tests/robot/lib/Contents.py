"""Robot Framework library: what an image has, against lists of what it may have.

The lists are in tests/robot/allowed, one entry a line; a line that begins with # is a comment. An
entry may have * in it. What is in the image and on no list is named, so that somebody decides
whether a node needs it. What listens is compared in the suite `service`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from robot.api.deco import keyword, library

from lab.paths import ROOT
from tests.robot.lib.session import session

ALLOWED = ROOT / "tests/robot/allowed"


def beyond(found: list[str], allowed: str) -> list[str]:
    """Those of the entries that no line of an allow list covers."""
    patterns = [line for line in allowed.splitlines() if line and not line.startswith("#")]
    return [entry for entry in found if not any(fnmatchcase(entry, p) for p in patterns)]


def compare(found: list[str], name: str) -> None:
    """Fails with what is beyond the list of that name; an empty finding is a failed question."""
    if not found:
        raise AssertionError(f"nothing was found to compare with tests/robot/allowed/{name}")
    if extra := beyond(found, (ALLOWED / name).read_text()):
        raise AssertionError(
            f"not in tests/robot/allowed/{name}: {', '.join(sorted(extra))};"
            " take it out of the image, or add it with the reason"
        )


@library(scope="GLOBAL", auto_keywords=False)
class Contents:
    """Files and units of the guest."""

    @keyword
    def no_file_should_be_setuid(self) -> None:
        """No file of the root file system gives who runs it another's rights.

        Example:
        | No File Should Be Setuid
        """
        found = session.run(r"find / -xdev -type f \( -perm -4000 -o -perm -2000 \)")
        if found:
            raise AssertionError(f"these are setuid or setgid: {found}")

    @keyword
    def units_should_be_allowed(self) -> None:
        """Each service, socket, timer and path unit of the image is on the list `units`.

        Example:
        | Units Should Be Allowed
        """
        kinds = "service,socket,timer,path,automount"
        text = session.run(f"systemctl list-unit-files --type={kinds} --no-legend --no-pager")
        found = [line.split()[0] for line in text.splitlines() if line.strip()]
        compare(found, "units")
