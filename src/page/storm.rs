//! The reader's own storm: its controls, and its load as the worker's frames come in.

use std::collections::VecDeque;

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::HtmlElement;

use super::dom::{self, Timer};
use super::{Ask, Input, Page, take};
use crate::storm::Setup;

/// How long each frame is shown at least.
const FRAME_MS: i32 = 40;

/// What is still to be shown of the storm that runs.
#[derive(Default)]
pub(super) struct Frames {
    waiting: VecDeque<String>,
    timer: Option<Timer>,
    /// No more will come.
    all_here: bool,
}

impl Page {
    /// A button within the controls was pressed.
    pub(super) fn storm_pressed(&mut self, button: HtmlElement) -> Result<(), JsValue> {
        if let Some(setup) = button.get_attribute("data-setup") {
            return self.set_up(&setup);
        }
        match button.id().as_str() {
            "storm-stop" => self.stop(),
            "storm-run" => match self.set_up_here()? {
                Some(setup) => self.press(Ask::Storm, button, None, VecDeque::from([setup])),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Puts a preset into the controls.
    fn set_up(&self, words: &str) -> Result<(), JsValue> {
        for word in words.split(' ') {
            let Some((name, value)) = word.split_once('=') else {
                continue;
            };
            let control = dom::by_id(&self.document, &format!("storm-{name}"))?;
            let (property, value) = match name {
                "breaker" => ("checked", JsValue::from_bool(value == "on")),
                _ => ("value", JsValue::from_str(value)),
            };
            Reflect::set(&control, &property.into(), &value)?;
            self.tell(&control, "")?;
        }
        Ok(())
    }

    /// What the controls say, or nothing if it will not do, which is told beside each that it is about.
    fn set_up_here(&self) -> Result<Option<String>, JsValue> {
        let root = dom::by_id(&self.document, "storm")?;
        let mut setup = Setup::AWS;
        let mut words = String::new();
        let mut wrong: Option<HtmlElement> = None;
        for control in dom::all(&root, "[name]")? {
            let control: HtmlElement = control.dyn_into()?;
            let name = control.get_attribute("name").unwrap_or_default();
            let property = |name: &str| Reflect::get(&control, &name.into());
            let value = if name == "breaker" {
                let on = property("checked")?.is_truthy();
                if on { "on" } else { "off" }.to_owned()
            } else {
                property("value")?.as_string().unwrap_or_default()
            };
            let value = value.trim();
            match setup.set(&name, value) {
                Ok(()) => {
                    self.tell(&control, "")?;
                    words.extend([&name, "=", value, " "]);
                }
                Err(good) => {
                    self.tell(&control, &good)?;
                    wrong.get_or_insert(control);
                }
            }
        }
        match wrong {
            Some(control) => control.focus().map(|()| None),
            None => Ok(Some(words)),
        }
    }

    /// Tells beside a control what it wants; nothing, if its value will do.
    fn tell(&self, control: &HtmlElement, good: &str) -> Result<(), JsValue> {
        let place = dom::by_id(&self.document, &format!("{}-error", control.id()))?;
        if good.is_empty() {
            place.set_text_content(None);
            return control.remove_attribute("aria-invalid");
        }
        place.set_text_content(Some(&["Wanted: ", good].concat()));
        control.set_attribute("aria-invalid", "true")
    }

    /// A frame came from the worker.
    pub(super) fn storm_came(&mut self, frame: String) -> Result<(), JsValue> {
        self.renew_limit()?;
        let frames = &mut self.frames;
        if self.still {
            // Only the last one will be shown.
            frames.waiting.clear();
        }
        frames.waiting.push_back(frame);
        if frames.timer.is_none() && !self.still {
            return self.storm_moves();
        }
        Ok(())
    }

    /// The worker has sent all of the storm.
    pub(super) fn storm_is_here(&mut self) -> Result<(), JsValue> {
        self.frames.all_here = true;
        if let Some(job) = &mut self.current {
            // The worker was in time; showing its frames may take longer.
            job.timers.truncate(1);
            job.last = "The storm is over.".to_owned();
        }
        if self.frames.timer.is_none() {
            return self.storm_moves();
        }
        Ok(())
    }

    /// Shows the next frame, and ends the job after the last.
    pub(super) fn storm_moves(&mut self) -> Result<(), JsValue> {
        self.frames.timer = None;
        let frame = self.frames.waiting.pop_front();
        if let Some(frame) = &frame {
            // Of the engine's own making: numbers and fixed words.
            dom::by_id(&self.document, "storm-shown")?.set_inner_html(frame);
        }
        if self.frames.waiting.is_empty() && self.frames.all_here {
            return self.finish();
        }
        if frame.is_some() {
            self.frames.timer = Some(Timer::new(FRAME_MS, || take(Input::Frame))?);
        }
        Ok(())
    }
}
