// Keeps the page up to date with status.json and draws the plots (docs/design/page.md). Everything
// that comes from the node is put in as text, never as markup. Without this script the page shows
// the same figures, as they were when it was loaded.
"use strict";

(() => {
	const EVERY = 10000; // ms between two looks
	const LATE = 60; // s after which figures that do not move are called old
	const plots = new Map();
	let state = "", moved = Date.now(), uptime = -1, latest = null;

	const by = (id) => document.getElementById(id);
	const made = (name, text) => {
		const element = document.createElement(name);
		element.textContent = text;
		return element;
	};
	// A person's selection and focus stay where they are unless the text is another one.
	const put = (element, text) => {
		if (element.textContent !== text) element.textContent = text;
	};
	const fill = (element, children) => {
		const next = document.createElement(element.tagName);
		next.append(...children);
		if (next.textContent !== element.textContent.replace(/\n/g, "") ||
			next.childElementCount !== element.childElementCount)
			element.replaceChildren(...next.childNodes);
	};
	const words = (text) => (typeof text === "string" ? text : "");
	const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

	function texts(now) {
		for (const element of document.querySelectorAll("[data-text]"))
			put(element, words(now.text[element.dataset.text]));
		by("bar").value = Number(now.text.progress_number) || 0;
		document.title = `${words(now.text.hostname)} - ${words(now.text.sentence)}`;
		if (state && state !== now.state) put(by("said"), words(now.sentence));
		state = now.state;
		fill(by("warnings"), [...now.warnings, ...now.reports].map((text) => made("li", text)));
		const ways = now.wallet.flatMap((way) => {
			const list = document.createElement("ol");
			list.append(...way.steps.map((step) => made("li", step)));
			return [made("h3", way.title), list];
		});
		fill(by("wallet"), ways);
		const blocks = now.history.blocks;
		fill(by("blocks"), blocks.slice(0, 10).map(([height, time, transactions], at) => {
			const row = document.createElement("tr");
			const minutes = at + 1 < blocks.length ? ((time - blocks[at + 1][1]) / 60).toFixed(1) : "";
			for (const text of [height.toLocaleString("en"), minutes, transactions.toLocaleString("en")])
				row.append(made("td", text));
			return row;
		}));
	}

	// One plot: made when there are points, then only given new ones.
	function plot(id, caption, data, bars, times) {
		const figure = by(id);
		const enough = data[0].length > 1;
		figure.hidden = !enough;
		if (!enough || typeof uPlot !== "function") {
			figure.hidden = true;
			return;
		}
		const box = figure.querySelector(".canvas");
		box.setAttribute("aria-label", caption);
		const there = plots.get(id);
		if (there) {
			there.setData(data);
			return;
		}
		const axis = {
			stroke: color("--soft"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") },
		};
		plots.set(id, new uPlot({
			width: box.clientWidth || 300,
			height: 200,
			legend: { show: false },
			cursor: { show: false },
			scales: {
				x: { time: times },
				y: { range: (_, low, high) => [0, bars ? Math.max(high, 20) : Math.max(high * 1.05, 1)] },
			},
			axes: [axis, axis],
			series: [{}, {
				stroke: color("--plot"),
				width: 2,
				fill: bars ? color("--plot") : undefined,
				paths: bars ? uPlot.paths.bars({ size: [0.6, 20] }) : undefined,
				points: { show: false },
			}],
		}, data, box));
	}

	function draw(now) {
		// The history counts seconds since the node's start: the node's clock may be wrong.
		const zero = Date.now() / 1000 - now.uptime_seconds;
		const { progress, blocks, mempool } = now.history;
		plot("plot-progress", `Plot: ${words(now.text.progress)} of the chain are verified`, [
			progress.map(([at]) => zero + at), progress.map((point) => point[2] * 100),
		], false, true);
		const newest = blocks.slice(0, 50).reverse();
		const gaps = newest.slice(1).map(([, time], at) => Math.max(0, time - newest[at][1]) / 60);
		const mean = gaps.length ? gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length : 0;
		plot("plot-blocks", `Plot: ${mean.toFixed(1)} minutes between two blocks on average`, [
			newest.slice(1).map(([height]) => height), gaps,
		], true, false);
		plot("plot-mempool", `Plot: mempool, ${words(now.text.mempool)}`, [
			mempool.map(([at]) => zero + at), mempool.map((point) => point[2] / 1e6),
		], false, true);
	}

	function again() {
		for (const drawn of plots.values()) drawn.destroy();
		plots.clear();
		if (latest) draw(latest);
	}

	async function look() {
		let lost = "";
		try {
			const answer = await fetch("/status.json", { cache: "no-store", credentials: "omit" });
			if (!answer.ok) throw new Error(answer.statusText);
			latest = await answer.json();
			if (latest.uptime_seconds !== uptime) {
				uptime = latest.uptime_seconds;
				moved = Date.now();
			}
			texts(latest);
			draw(latest);
			if (Date.now() - moved > LATE * 1000)
				lost = "These figures are old: the node collects no new ones at the moment.";
		} catch {
			lost = "The node does not answer at the moment. The figures below are the last ones;" +
				" is it switched on, and are you in its network?";
		}
		put(by("lost"), lost);
	}

	const sized = new ResizeObserver((entries) => {
		for (const { target, contentRect } of entries) {
			const drawn = plots.get(target.parentElement.id);
			if (drawn && contentRect.width > 0 && Math.round(contentRect.width) !== drawn.width)
				drawn.setSize({ width: Math.round(contentRect.width), height: 200 });
		}
	});
	for (const box of document.querySelectorAll(".canvas")) sized.observe(box);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
	document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
	setInterval(() => { if (!document.hidden) look(); }, EVERY);
	look();
})();
