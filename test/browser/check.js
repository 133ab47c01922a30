// What a page must have for everybody to be able to use it. It runs in the page and
// returns a sentence for each thing that is wrong.
(() => {
	const wrong = new Set()
	const say = text => { if (wrong.size < 40) wrong.add(text) }

	const name = el => {
		let s = el.tagName.toLowerCase()
		if (el.id) s += "#" + el.id
		const c = el.getAttribute("class")
		if (c) s += "." + c.trim().replace(/\s+/g, ".")
		return s
	}
	const shortened = text => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 40))

	const visible = el => {
		if (!el.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false
		for (let e = el; e; e = e.parentElement) { // shown to screen readers only
			const s = getComputedStyle(e)
			if (s.clipPath.startsWith("inset(50%") || s.clip === "rect(0px, 0px, 0px, 0px)" || s.clip === "rect(1px, 1px, 1px, 1px)") return false
		}
		const r = el.getBoundingClientRect()
		return r.width > 1 && r.height > 1
	}

	// Colours in any notation, as [r, g, b, a] of 0 to 255 and 0 to 1.
	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })
	const known = new Map()
	const rgba = text => {
		if (!known.has(text)) {
			canvas.clearRect(0, 0, 1, 1)
			canvas.fillStyle = text
			canvas.fillRect(0, 0, 1, 1)
			const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data
			known.set(text, [r, g, b, a / 255])
		}
		return known.get(text)
	}
	const over = (top, bottom) => {
		const a = top[3] + bottom[3] * (1 - top[3])
		if (a === 0) return [0, 0, 0, 0]
		return [0, 1, 2].map(i => (top[i] * top[3] + bottom[i] * bottom[3] * (1 - top[3])) / a).concat(a)
	}
	const luminance = c => {
		const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 })
		return 0.2126 * r + 0.7152 * g + 0.0722 * b
	}
	const contrast = (a, b) => {
		const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p)
		return (x + 0.05) / (y + 0.05)
	}
	const page = (() => {
		const probe = document.createElement("i")
		document.body.append(probe)
		probe.style.backgroundColor = "Canvas"
		const c = rgba(getComputedStyle(probe).backgroundColor)
		probe.remove()
		return c
	})()

	// The colours that may lie behind an element: the one of the nearest opaque ancestor
	// with all translucent ones in between, and every colour of a gradient on the way.
	const behind = el => {
		const layers = []
		for (let e = el; e; e = e.parentElement) {
			const s = getComputedStyle(e)
			if (s.backgroundImage.includes("gradient")) {
				layers.push((s.backgroundImage.match(/(?:rgba?|color|oklch|oklab|hsla?|lab|lch)\([^()]*\)/g) ?? []).map(rgba))
			}
			const c = rgba(s.backgroundColor)
			layers.push([c])
			if (c[3] === 1) break
		}
		let grounds = [page]
		for (const layer of layers.reverse()) grounds = layer.flatMap(c => grounds.map(g => over(c, g)))
		return grounds.slice(0, 64)
	}
	// What is painted in a picture below a text of it.
	const painted = text => {
		const r = text.getBoundingClientRect()
		const x = r.left + r.width / 2, y = r.top + r.height / 2
		const fills = []
		for (const el of document.elementsFromPoint(x, y)) {
			if (!(el instanceof SVGGeometryElement) || el instanceof SVGLineElement) continue // a line fills nothing
			const s = getComputedStyle(el)
			if (s.fill === "none" || s.fill.startsWith("url")) continue
			const c = [...rgba(s.fill)]
			c[3] *= parseFloat(s.fillOpacity) * parseFloat(s.opacity)
			fills.push(c)
		}
		return fills.reverse()
	}

	const judge = (el, colour, s, text) => {
		let grounds
		if (el instanceof SVGElement) {
			let fills = painted(el)
			// A halo is painted around the letters, below them.
			if (s.paintOrder.startsWith("stroke") && s.stroke !== "none" && parseFloat(s.strokeWidth) >= 2) fills = [rgba(s.stroke)]
			let host = el
			while (host instanceof SVGElement) host = host.parentElement
			grounds = behind(host).map(g => fills.reduce((bottom, top) => over(top, bottom), g))
		} else {
			grounds = behind(el)
		}
		const size = parseFloat(s.fontSize), large = size >= 24 || size >= 18.66 && parseInt(s.fontWeight) >= 700
		const ink = [...rgba(colour)]
		for (let e = el; e; e = e.parentElement) ink[3] *= parseFloat(getComputedStyle(e).opacity)
		const least = Math.min(...grounds.map(g => contrast(over(ink, g), g)))
		if (least < (large ? 3 : 4.5) - 0.005) say(`contrast ${least.toFixed(2)} of ${shortened(text)} in ${name(el)}`)
	}

	const off = el => el.closest(":disabled, [aria-disabled=true]")
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const el = n.parentElement
		if (!n.data.trim() || el.closest("script, style, option, title, desc, template") || !visible(el) || off(el)) continue
		const s = getComputedStyle(el)
		judge(el, el instanceof SVGElement ? s.fill : s.color, s, n.data)
	}

	const fields = [...document.querySelectorAll("input:not([type=hidden], [hidden]), select, textarea")]
	for (const el of fields) {
		if (!el.labels?.length && !el.getAttribute("aria-label") && !el.getAttribute("aria-labelledby")) say(`no label: ${name(el)}`)
		if (!visible(el) || off(el)) continue
		const s = getComputedStyle(el)
		if (el.value && !["checkbox", "radio", "range", "color"].includes(el.type)) judge(el, s.color, s, el.value)
		if (!el.value && el.placeholder) {
			const p = getComputedStyle(el, "::placeholder")
			judge(el, p.color, p, el.placeholder)
		}
	}

	if (!document.documentElement.lang) say("the page has no language")
	if (!document.title.trim()) say("the page has no title")
	if (!document.querySelector("main")) say("the page has no main")
	const h1 = document.querySelectorAll("h1").length
	if (h1 !== 1) say(`${h1} h1, want one`)
	let level = 0
	for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
		const now = Number(h.tagName[1])
		if (now > level + 1) say(`heading ${shortened(h.textContent)} is of level ${now} after ${level}`)
		level = now
	}

	const named = el => el.getAttribute("aria-label")?.trim() ||
		(el.getAttribute("aria-labelledby") ?? "").split(/\s+/).some(id => id && document.getElementById(id)?.textContent.trim())
	const read = el => { // what a screen reader would say of the content
		let out = ""
		for (const n of el.childNodes) {
			if (n.nodeType === Node.TEXT_NODE) out += n.data
			else if (n.nodeType === Node.ELEMENT_NODE && n.getAttribute("aria-hidden") !== "true" && n.checkVisibility()) out += n.getAttribute("aria-label") ?? n.alt ?? read(n)
		}
		return out.trim()
	}
	for (const el of document.querySelectorAll("a[href], button, summary, [role=button], [role=link]")) {
		if (el.checkVisibility() && !named(el) && !read(el)) say(`nothing to read: ${name(el)} ${el.getAttribute("href") ?? ""}`)
	}
	for (const el of document.querySelectorAll("img")) if (!el.hasAttribute("alt")) say(`picture without alt: ${el.src}`)
	for (const el of document.querySelectorAll("svg")) {
		if (el.closest("[aria-hidden=true]") || el.parentElement.closest("svg")) continue
		if (el.getAttribute("role") !== "img") say(`picture is neither hidden nor role=img: ${name(el)} in ${name(el.parentElement)}`)
		else if (!named(el) && !el.querySelector(":scope > title")?.textContent.trim()) say(`picture without a name: ${name(el)}`)
	}
	for (const el of document.querySelectorAll("table")) if (!el.querySelector("th")) say(`table without headings: ${name(el)}`)

	const ids = new Set()
	for (const el of document.querySelectorAll("[id]")) {
		if (ids.has(el.id)) say(`id twice: ${el.id}`)
		ids.add(el.id)
	}
	for (const attribute of ["aria-describedby", "aria-labelledby", "aria-controls", "for"]) {
		for (const el of document.querySelectorAll(`[${attribute}]`)) {
			for (const id of el.getAttribute(attribute).split(/\s+/)) {
				if (id && !ids.has(id)) say(`${attribute} of ${name(el)} names ${id}, which is not there`)
			}
		}
	}

	// Focus must show on the thing itself or right around it.
	const looks = el => [el, el.parentElement, el.parentElement?.parentElement].filter(Boolean).map(e => {
		const s = getComputedStyle(e)
		return [s.outlineStyle === "none" ? "none" : s.outlineStyle + s.outlineWidth + s.outlineColor, s.boxShadow, s.borderColor].join("|")
	}).join("/")
	const seen = new Map()
	const at = document.activeElement
	for (const el of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
		if (!el.checkVisibility({ visibilityProperty: true }) || off(el)) continue
		const kind = el.tagName + "." + el.getAttribute("class") + " in " + name(el.parentElement)
		seen.set(kind, (seen.get(kind) ?? 0) + 1)
		if (seen.get(kind) > 2) continue
		document.activeElement?.blur()
		const before = looks(el)
		el.focus({ preventScroll: true, focusVisible: true })
		if (document.activeElement !== el) say(`cannot have the focus: ${name(el)}`)
		else if (looks(el) === before) say(`focus does not show: ${name(el)} in ${name(el.parentElement)}`)
	}
	document.activeElement?.blur()
	at?.focus?.({ preventScroll: true })

	return [...wrong]
})()
