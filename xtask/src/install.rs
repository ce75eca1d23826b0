//! What the tests will ask for, installed while other things are done.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::browser::Browser;
use crate::test::Parts;
use crate::tools;

/// Installations that are under way.
pub struct Installs(Vec<JoinHandle<()>>);

/// Begins to install what is missing for the tests in these browsers. What fails here is tried again, and told, by whoever
/// needs it.
pub fn begin(browsers: &[Browser], parts: &Arc<Parts>) -> Installs {
    let has = |browser| browsers.contains(&browser);
    let (firefox, webkit) = (has(Browser::Firefox), has(Browser::WebKit));
    let mut installs = Vec::new();
    let mut begin = |name: &'static str, work: Box<dyn FnOnce() + Send>| {
        let parts = Arc::clone(parts);
        installs.push(thread::spawn(move || parts.time(name, work)));
    };
    if firefox {
        begin(
            "geckodriver",
            Box::new(|| {
                let _ = tools::geckodriver();
            }),
        );
    }
    begin(
        "packages",
        Box::new(move || {
            // In the order in which they are asked for. Chromium is Lighthouse's too.
            let _ = tools::c_tools();
            if tools::node().is_ok() {
                let _ = tools::npm_packages("binaryen");
                let _ = tools::npm_packages("audits");
            }
            let _ = tools::chromium();
            if firefox {
                let _ = tools::firefox();
            }
            if webkit {
                let _ = tools::webkit();
                let _ = tools::xvfb();
            }
        }),
    );
    Installs(installs)
}

impl Installs {
    /// Waits until all of them have ended, well or not.
    pub fn wait(self) {
        for install in self.0 {
            let _ = install.join();
        }
    }
}
