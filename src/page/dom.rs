//! What the page borrows from the browser, each given back on drop.

use js_sys::{Function, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Document, Element, Event, EventTarget, HtmlElement, Window};

/// A subscription to one kind of event; dropping it unsubscribes.
pub(super) struct Listener {
    target: EventTarget,
    kind: &'static str,
    callback: Closure<dyn FnMut(Event)>,
}

impl Listener {
    /// Calls `callback` at each event of `kind` that reaches `target`.
    pub(super) fn new(
        target: &EventTarget,
        kind: &'static str,
        callback: impl FnMut(Event) + 'static,
    ) -> Result<Self, JsValue> {
        let callback: Closure<dyn FnMut(Event)> = Closure::new(callback);
        target.add_event_listener_with_callback(kind, callback.as_ref().unchecked_ref())?;
        Ok(Self {
            target: target.clone(),
            kind,
            callback,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Unsubscribing fails only for a target that is no event target, and this one took the subscription.
        let _ = self
            .target
            .remove_event_listener_with_callback(self.kind, self.callback.as_ref().unchecked_ref());
    }
}

/// A callback due once after some time; dropping it calls it off.
pub(super) struct Timer {
    id: i32,
    _callback: Closure<dyn FnMut()>,
}

impl Timer {
    /// Calls `callback` after `delay_ms`.
    pub(super) fn new(delay_ms: i32, callback: impl FnMut() + 'static) -> Result<Self, JsValue> {
        let callback: Closure<dyn FnMut()> = Closure::new(callback);
        Ok(Self {
            id: set_timeout(callback.as_ref().unchecked_ref(), delay_ms)?,
            _callback: callback,
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(self.id);
    }
}

// Of the global object, which is another in a worker than in a page.
#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout, catch)]
    fn set_timeout(callback: &Function, delay_ms: i32) -> Result<i32, JsValue>;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(id: i32);
}

/// The window, which a worker does not have.
pub(super) fn window() -> Result<Window, JsValue> {
    web_sys::window().ok_or_else(|| JsValue::from_str("no window"))
}

/// The document.
pub(super) fn document() -> Result<Document, JsValue> {
    window()?
        .document()
        .ok_or_else(|| JsValue::from_str("no document"))
}

/// The element with this id.
pub(super) fn by_id(document: &Document, id: &str) -> Result<HtmlElement, JsValue> {
    document
        .get_element_by_id(id)
        .and_then(|element| element.dyn_into().ok())
        .ok_or_else(|| JsValue::from_str(&format!("no element #{id}")))
}

/// The first element within `root` that `selector` names.
pub(super) fn first(root: &Element, selector: &str) -> Result<HtmlElement, JsValue> {
    root.query_selector(selector)?
        .and_then(|element| element.dyn_into().ok())
        .ok_or_else(|| JsValue::from_str(&format!("no element {selector}")))
}

/// All elements within `root` that `selector` names.
pub(super) fn all(root: &Element, selector: &str) -> Result<Vec<Element>, JsValue> {
    let nodes = root.query_selector_all(selector)?;
    Ok((0..nodes.length())
        .filter_map(|index| nodes.get(index)?.dyn_into().ok())
        .collect())
}

/// What stands in the control with this id, whatever kind of control it is.
pub(super) fn value(document: &Document, id: &str) -> Result<String, JsValue> {
    let value = Reflect::get(&*by_id(document, id)?, &JsValue::from_str("value"))?;
    Ok(value.as_string().unwrap_or_default())
}

/// Puts `value` into the control with this id.
pub(super) fn set_value(document: &Document, id: &str, value: &str) -> Result<(), JsValue> {
    let control = by_id(document, id)?;
    Reflect::set(
        &control,
        &JsValue::from_str("value"),
        &JsValue::from_str(value),
    )
    .map(|_| ())
}

/// The root element of the document.
pub(super) fn root(document: &Document) -> Result<Element, JsValue> {
    document
        .document_element()
        .ok_or_else(|| JsValue::from_str("no root element"))
}

/// What a thrown value says.
pub(super) fn message(thrown: &JsValue) -> String {
    thrown
        .as_string()
        .or_else(|| {
            thrown
                .dyn_ref::<js_sys::Error>()
                .map(|error| String::from(error.message()))
        })
        .unwrap_or_else(|| format!("{thrown:?}"))
}
