//! Whoever reads, by whatever means.

use anyhow::{Result, ensure};
use fantoccini::key::Key;

use super::{Check, Expected, check, every_row_agrees};
use crate::browser::driver::Settings;
use crate::browser::page::{Page, Setup};

pub const ALL: &[Check] = &[
    check!(tab_reaches_every_control_visibly, Setup::PLAIN),
    check!(keys_work_every_kind_of_control, Setup::PLAIN),
    check!(nothing_scrolls_sideways_at_320_px, Setup::FRAMED),
    check!(
        nothing_moves_for_those_who_ask,
        Setup {
            settings: Settings {
                reduced_motion: true,
                ..Setup::PLAIN.settings
            },
            ..Setup::PLAIN
        }
    ),
    check!(
        dark_for_those_who_ask,
        Setup {
            settings: Settings {
                dark: true,
                ..Setup::PLAIN.settings
            },
            ..Setup::PLAIN
        }
    ),
];

async fn tab_reaches_every_control_visibly(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let count: usize = page
        .settled(
            "the buttons work, and nothing was pressed",
            "(() => {
               window.controls = [...document.querySelectorAll('a[href], button, summary, input, select, textarea, [tabindex]')]
                 .filter((one) => one.checkVisibility({ visibilityProperty: true }));
               window.stops = [];
               addEventListener('focusin', ({ target }) => {
                 const { outlineStyle, outlineWidth } = getComputedStyle(target);
                 const seen = target.matches(':focus-visible') && outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
                 stops.push({ target, seen });
               });
               return controls.length;
             })()",
        )
        .await?;
    ensure!(count > 100, "expected more than 100 controls, seen {count}");
    page.key(Key::Tab, count).await?;
    page.see(
        "Tab stops at every control, in order and visibly",
        "(() => {
           const name = (one) => one ? one.outerHTML.slice(0, 120) : 'nothing';
           for (let at = 0; at < controls.length; at += 1) {
             const stop = stops[at];
             if (stop?.target !== controls[at])
               return `stop ${at + 1}: expected ${name(controls[at])}, seen ${name(stop?.target)}`;
             if (!stop.seen) return `stop ${at + 1}: expected a visible focus on ${name(stop.target)}`;
           }
           return '';
         })()",
        |wrong: &String| wrong.is_empty(),
    )
    .await
    .map(|_| ())
}

async fn keys_work_every_kind_of_control(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    for (id, key) in [(expected.any(), Key::Enter), (expected.other(), Key::Space)] {
        let button = format!("button.run[data-run='{id}']");
        page.key_on(&button, key).await?;
        let row = page.answered(id).await?;
        ensure!(row.agrees(), "expected {id} run by a key, seen {row:?}");
        // Said last: where the focus is, is settled by then.
        page.says("there is a status to dismiss", |status| {
            status.starts_with(id)
        })
        .await?;
        page.expect(
            &format!("the focus is still on {button} after its run"),
            &format!("document.activeElement === document.querySelector(\"{button}\")"),
        )
        .await?;
    }
    page.key_on("#dismiss", Key::Enter).await?;
    page.says("the status is dismissed by a key", str::is_empty)
        .await?;
    // Evidence, the trace within it, an answer of the exercises: whatever opens.
    let evidence = format!("#evidence-{}", expected.any());
    for details in [
        evidence.clone(),
        format!("{evidence} .trace"),
        "details.answer".to_owned(),
    ] {
        for (key, open) in [(Key::Enter, true), (Key::Space, false), (Key::Space, true)] {
            page.key_on(&format!("{details} > summary"), key).await?;
            page.expect(
                &format!(
                    "{details} is {} by a key",
                    if open { "opened" } else { "closed" }
                ),
                &format!("document.querySelector('{details}').open === {open}"),
            )
            .await?;
        }
    }
    page.key_on("#contents a", Key::Enter).await?;
    page.expect(
        "a link of the contents is followed by a key",
        "location.hash === document.querySelector('#contents a').hash",
    )
    .await?;
    page.key_on("button.run-all", Key::Space).await?;
    page.key_on("details.report > summary", Key::Enter).await?;
    page.expect(
        "the report of the first table is opened by a key",
        "document.querySelector('details.report').open",
    )
    .await
}

async fn nothing_scrolls_sideways_at_320_px(page: &Page, expected: &Expected) -> Result<()> {
    page.load_at_width(320).await?;
    no_sideways_scrolling(page, "at first").await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    page.open_everything().await?;
    no_sideways_scrolling(page, "with all of it run and open").await
}

async fn no_sideways_scrolling(page: &Page, when: &str) -> Result<()> {
    let (window, content, wide): (u32, u32, Vec<String>) = page
        .settled(
            "the page is laid out before a script reads its sizes",
            "[innerWidth, document.documentElement.scrollWidth,
              [...document.querySelectorAll('body *')]
                .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
                .map((one) => one.outerHTML.slice(0, 80)).slice(0, 3)]",
        )
        .await?;
    ensure!(window == 320, "expected 320 px, seen {window}");
    ensure!(
        content <= window,
        "expected a page no wider than its window {when}, seen {content}; too wide: {}",
        wide.join(" ")
    );
    Ok(())
}

/// What moves or could move, by a transition, an animation or a smooth scroll longer than anyone sees.
const MOVING: &str = "(() => {
    const seconds = (times) => Math.max(...times.split(',').map((time) => parseFloat(time) * (time.endsWith('ms') ? 0.001 : 1)));
    return [...document.querySelectorAll('*')].filter((one) => {
      const style = getComputedStyle(one);
      return seconds(style.transitionDuration) > 0.01 || seconds(style.animationDuration) > 0.01
        && style.animationName !== 'none' || style.scrollBehavior === 'smooth';
    }).map((one) => one.cloneNode().outerHTML).concat(
      document.getAnimations().map((one) => one.effect.target.cloneNode().outerHTML)).join(' ');
  })()";

async fn nothing_moves_for_those_who_ask(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.expect(
        "the browser's reader asks for less motion",
        "matchMedia('(prefers-reduced-motion: reduce)').matches",
    )
    .await?;
    page.run_one(expected.any()).await?;
    page.open_evidence(expected.any()).await?;
    // Not one look: what is over within a hundredth of a second may still be under way.
    page.see("nothing moves", MOVING, String::is_empty).await?;
    Ok(())
}

async fn dark_for_those_who_ask(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.see(
        "the page is light on dark",
        "(() => {
           const light = (colour) => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
           const { backgroundColor, color } = getComputedStyle(document.body);
           return light(backgroundColor) < 0.2 && light(color) > 0.7 ? '' : `${color} on ${backgroundColor}`;
         })()",
        String::is_empty,
    )
    .await?;
    Ok(())
}
