//! The step control under a diagram: where it stands, and what the step shows.

use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Document, Element, HtmlElement, HtmlInputElement};

use super::dom;
use super::protocol::Steps;
use crate::timeline::{PARTS, Parts};

/// The control as markup; everything of a run is filled in by [`StepControl`].
const CONTROL: &str = "<div class=\"step-controls\" role=\"group\" aria-label=\"Steps\">\
<button type=\"button\" data-move=\"line-back\" aria-label=\"Previous line\">⇤</button>\
<button type=\"button\" data-move=\"back\" aria-label=\"Previous step\">←</button>\
<input type=\"range\" min=\"1\" aria-label=\"Step\">\
<button type=\"button\" data-move=\"on\" aria-label=\"Next step\">→</button>\
<button type=\"button\" data-move=\"line-on\" aria-label=\"Next line\">⇥</button>\
</div><p class=\"step-event\" role=\"status\"></p><dl class=\"step-parts\">\
<div><dt>Callers know</dt><dd></dd></div>\
<div><dt>SQL, begun last</dt><dd></dd></div>\
<div><dt>Locks held</dt><dd></dd></div>\
<div><dt>Rows that a fresh reader sees</dt><dd></dd></div>\
<div><dt>Rows after a power cut here</dt><dd></dd></div></dl>";

/// The control of one run. Its element keeps it as long as the run is shown.
pub(super) struct StepControl {
    root: HtmlElement,
    diagram: HtmlElement,
    slider: HtmlInputElement,
    event: HtmlElement,
    /// The parts after the event, in the order of [`PARTS`].
    parts: Vec<HtmlElement>,
    texts: Vec<String>,
    steps: Vec<Parts>,
    /// The steps that the diagram has a line for.
    lines: Vec<usize>,
    at: usize,
    shown: Option<Parts>,
}

impl StepControl {
    /// Puts the control of `run` in the place of what `root` holds and shows the first line.
    pub(super) fn new(document: &Document, root: HtmlElement, run: Steps) -> Result<Self, JsValue> {
        let focused = document
            .active_element()
            .is_some_and(|active| root.contains(Some(&active)));
        root.set_inner_html(CONTROL);
        let slider: HtmlInputElement = dom::first(&root, "input")?.dyn_into()?;
        slider.set_max(&run.steps.len().to_string());
        let diagram: HtmlElement = root
            .previous_element_sibling()
            .and_then(|diagram| diagram.dyn_into().ok())
            .ok_or_else(|| JsValue::from_str("no diagram above the steps"))?;
        diagram.class_list().add_1("stepped")?;
        let lines = dom::all(&diagram, "[data-step]")?
            .iter()
            .filter_map(step_of)
            .collect();
        let mut control = Self {
            event: dom::first(&root, ".step-event")?,
            parts: dom::all(&root, "dd")?
                .into_iter()
                .filter_map(|part| part.dyn_into().ok())
                .collect(),
            diagram,
            slider,
            texts: run.texts,
            steps: run.steps,
            lines,
            at: 0,
            shown: None,
            root,
        };
        control.show(control.lines.first().copied().unwrap_or(0))?;
        if focused {
            // The pressed button is gone; the focus goes to what took its place.
            control.slider.focus()?;
        }
        Ok(control)
    }

    /// Whether an event on `element` is for this control.
    pub(super) fn holds(&self, element: &Element) -> bool {
        self.root.contains(Some(element))
    }

    /// Whether the control is still in the page: a new run takes its place.
    pub(super) fn is_shown(&self) -> bool {
        self.root.is_connected()
    }

    /// Goes where the slider stands.
    pub(super) fn slide(&mut self) -> Result<(), JsValue> {
        let step = self.slider.value().parse().unwrap_or(1_usize);
        self.show(step.saturating_sub(1))
    }

    /// Goes where a button says.
    pub(super) fn go(&mut self, way: &str) -> Result<(), JsValue> {
        let at = self.at;
        let line = match way {
            "line-back" => self.lines.iter().rev().find(|&&line| line < at).copied(),
            "line-on" => self.lines.iter().find(|&&line| line > at).copied(),
            "back" => at.checked_sub(1),
            _ => Some(at + 1),
        };
        self.show(line.unwrap_or(at))
    }

    fn show(&mut self, step: usize) -> Result<(), JsValue> {
        let Some(last) = self.steps.len().checked_sub(1) else {
            return Ok(());
        };
        self.at = step.min(last);
        let parts = self.steps[self.at];
        let text = |part: usize| {
            self.texts
                .get(parts[part] as usize)
                .map_or("", String::as_str)
        };
        let event = format!("Step {} of {}: {}", self.at + 1, self.steps.len(), text(0));
        self.slider.set_value(&(self.at + 1).to_string());
        self.slider.set_attribute("aria-valuetext", &event)?;
        self.event.set_text_content(Some(&event));
        for (part, element) in (1..PARTS.len()).zip(&self.parts) {
            if self.shown.is_none_or(|shown| shown[part] != parts[part]) {
                // Escaped by the engine, as evidence is.
                element.set_inner_html(text(part));
            }
        }
        self.shown = Some(parts);
        self.mark()
    }

    /// Marks in the diagram the line that the step is at or past, and those still to come.
    fn mark(&self) -> Result<(), JsValue> {
        let now = self.lines.iter().rev().find(|&&line| line <= self.at);
        for line in dom::all(&self.diagram, "[data-step]")? {
            let step = step_of(&line);
            let classes = line.class_list();
            classes.toggle_with_force("later", step.is_some_and(|step| step > self.at))?;
            let is_now = step.as_ref() == now;
            classes.toggle_with_force("now", is_now)?;
            if is_now {
                self.scroll_to(&line)?;
            }
        }
        Ok(())
    }

    /// Scrolls the diagram, and nothing but the diagram, to a line of it.
    fn scroll_to(&self, line: &Element) -> Result<(), JsValue> {
        let Some(line) = line.query_selector("path")? else {
            return Ok(());
        };
        let line = line.get_bounding_client_rect();
        let frame = self.diagram.get_bounding_client_rect();
        let down = line.top() - frame.top() - frame.height() / 2.0;
        let right = line.left() - frame.left() - frame.width() / 4.0;
        self.diagram
            .set_scroll_top(self.diagram.scroll_top() + down as i32);
        self.diagram
            .set_scroll_left(self.diagram.scroll_left() + right as i32);
        Ok(())
    }
}

fn step_of(line: &Element) -> Option<usize> {
    line.get_attribute("data-step")?.parse().ok()
}
