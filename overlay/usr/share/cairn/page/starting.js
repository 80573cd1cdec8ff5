// Loads the page anew when the collector's has taken the place of the one that says that the node
// is starting (docs/design/page.md).
"use strict";

setInterval(() => {
	fetch("/").then((answer) => answer.text()).then((text) => {
		if (!text.includes("/static/starting.js")) location.reload();
	}).catch(() => {}); // the node restarts, perhaps
}, 5000);
