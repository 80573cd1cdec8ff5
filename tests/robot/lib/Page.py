"""Robot Framework library: the node's page in Debian's Chromium, beside SeleniumLibrary's keywords.

Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
from robot.api import logger
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By

from lab.paths import ROOT
from tests.robot.lib.session import poll, session
from tests.shared.browser import SIZES, open_page, requests, screenshot, started, violations

SCHEMA = ROOT / "docs/design/status.schema.json"


@library(scope="GLOBAL", auto_keywords=False)
class Page:
    """What a browser in the owner's network is shown."""

    def __init__(self) -> None:
        """There is no browser until one is opened."""
        self.driver: webdriver.Chrome | None = None
        self.address = ""

    @keyword
    def open_browser_of_the_owner(self, port: int | str) -> None:
        """Starts a browser without a window for the page at this port of 127.0.0.1.

        SeleniumLibrary knows it as its current browser and closes it.

        Example:
        | Open Browser Of The Owner    18680
        """
        self.address = f"http://127.0.0.1:{port}"
        self.driver = started()
        self.driver.set_script_timeout(session.seconds(30))
        selenium: Any = BuiltIn().get_library_instance("SeleniumLibrary")
        selenium.register_driver(self.driver, "owner")

    def figures(self) -> dict[str, Any]:
        """The page's JSON, as it is now; it fits the schema."""
        assert self.driver
        self.driver.get(f"{self.address}/status.json")
        found: dict[str, Any] = json.loads(self.driver.find_element(By.TAG_NAME, "body").text)
        jsonschema.validate(found, json.loads(SCHEMA.read_text()))
        return found

    @keyword
    def page_should_come_to_say(self, sentence: str, seconds: float = 120) -> dict[str, Any]:
        """Waits until the page's sentence matches a regular expression; returns the figures.

        Fails if it never does, or if the JSON does not fit its schema.

        Example:
        | Page Should Come To Say    ^Up to date: block    300
        """

        def ask() -> dict[str, Any] | None:
            try:
                found = self.figures()
            except (WebDriverException, json.JSONDecodeError) as error:
                logger.info(f"no figures yet: {error}")
                return None
            return found if re.search(sentence, found["sentence"]) else None

        figures = poll(ask, session.seconds(seconds))
        if figures is None:
            raise AssertionError(f"the page says: {self.figures()['sentence']}")
        return figures

    @keyword
    def page_should_come_to_warn(self, text: str, seconds: float = 120) -> None:
        """Waits until the page has a warning or report with this text in it. Fails if it never has.

        Example:
        | Page Should Come To Warn    The node has no connection to other nodes    600
        """

        def ask() -> list[str] | None:
            warnings = self.attention()
            return warnings if any(text in warning for warning in warnings) else None

        if poll(ask, session.seconds(seconds)) is None:
            raise AssertionError(f"the page warns of: {self.attention()}")

    def attention(self) -> list[str]:
        """What the page shows below "What needs attention"."""
        figures = self.figures()
        found: list[str] = figures["warnings"] + figures["reports"]
        return found

    @keyword
    def daemon_starts_and_is_held(self) -> None:
        """Starts bitcoind and stops its process (SIGSTOP) as soon as it is there.

        Example:
        | Daemon Starts And Is Held
        """
        session.run(
            "systemctl --no-block start bitcoind;"
            " until process=$(pidof bitcoind); do sleep 0.2; done"
            '; kill -STOP "$process"'
        )

    @keyword
    def held_daemon_goes_on(self) -> None:
        """Lets go on what `Daemon Starts And Is Held` has stopped.

        Example:
        | Held Daemon Goes On
        """
        session.run('process=$(pidof bitcoind) && kill -CONT "$process"')

    @keyword
    def page_should_be_in_order(self, state: str) -> None:
        """The page at the size of a phone and of a desktop: its sentence, axe-core, its requests.

        ``state``: for the name of the pictures page-STATE-SIZE.png, which stand beside the log.
        Fails if axe-core finds a violation, if the page can be scrolled sideways, if it asks
        anybody but the node, or if its script ends with an error.

        Example:
        | Page Should Be In Order    tip
        """
        assert self.driver
        folder = Path(session.variable("OUTPUT_DIR", "."))
        for size in SIZES:
            requests(self.driver)
            self.driver.get_log("browser")
            open_page(self.driver, self.address, size)
            width = (
                "const root = document.documentElement; return root.scrollWidth - root.clientWidth"
            )
            problems = [
                *(f"axe-core: {found}" for found in violations(self.driver)),
                *(f"asks {url}" for url in self.strangers()),
                *(entry["message"] for entry in self.driver.get_log("browser")),
            ]
            if self.driver.execute_script(width) > 0:
                problems.append("it can be scrolled sideways")
            picture = folder / f"page-{state}-{size}.png"
            screenshot(self.driver, picture)
            logger.info(f'<img src="{picture.name}" width="400">', html=True)
            if problems:
                raise AssertionError(f"{size}: " + "; ".join(problems))

    def strangers(self) -> list[str]:
        """Addresses outside of the node that the page has asked for."""
        assert self.driver
        return [url for url in requests(self.driver) if not url.startswith(f"{self.address}/")]
