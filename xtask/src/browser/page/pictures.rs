//! Pictures of the page, for a look by eye.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fantoccini::wd::PrintConfiguration;
use serde_json::json;

use super::{Page, Setup};
use crate::browser::driver::Settings;

/// A picture: its file, the width, the scheme, the medium.
const PICTURES: [(&str, u32, &str, &str); 5] = [
    ("wide", 1280, "light", "screen"),
    ("phone", 375, "light", "screen"),
    ("phone-320", 320, "light", "screen"),
    ("dark", 1280, "dark", "screen"),
    ("print", 794, "light", "print"),
];

/// Writes each picture before any run, and again with `-run` after *Run all*; and the printed page.
pub async fn take(page: &Page, dir: &Path) -> Result<()> {
    page.load_with_engine().await?;
    all(page, dir, "").await?;
    page.run_all().await?;
    all(page, dir, "-run").await?;
    let pdf = page
        .session
        .client()?
        .print(PrintConfiguration::default())
        .await?;
    write(dir, "print.pdf", &pdf)
}

async fn all(page: &Page, dir: &Path, suffix: &str) -> Result<()> {
    for (name, width, scheme, medium) in PICTURES {
        let screen =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        page.session
            .devtools("Emulation.setDeviceMetricsOverride", screen)
            .await?;
        let settings = Settings {
            dark: scheme == "dark",
            ..Setup::PLAIN.settings
        };
        page.session.emulate_media(medium, &settings).await?;
        let (full_width, height) = extent(page).await?;
        if full_width > u64::from(width) {
            println!(
                "{name}{suffix}: the page is {full_width} px wide and scrolls sideways at {width} px"
            );
        }
        // The protocol's own capture beyond the viewport lays out fixed parts twice; a tall screen does not.
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        page.session
            .devtools("Emulation.setDeviceMetricsOverride", screen)
            .await?;
        let picture = page.session.client()?.screenshot().await?;
        write(dir, &format!("{name}{suffix}.png"), &picture)?;
    }
    page.session
        .devtools("Emulation.clearDeviceMetricsOverride", json!({}))
        .await?;
    page.session
        .emulate_media("screen", &Setup::PLAIN.settings)
        .await
}

/// The size of the whole page at the width that is set.
async fn extent(page: &Page) -> Result<(u64, u64)> {
    page.settled(
        "the page is laid out for the width before the driver answers",
        "[document.documentElement.scrollWidth, Math.min(document.documentElement.scrollHeight, 16000)]",
    )
    .await
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    ensure!(!bytes.is_empty(), "{name} is empty");
    let path = dir.join(name);
    fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
