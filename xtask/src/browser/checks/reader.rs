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
    let controls = page
        .script(
            "window.controls = [...document.querySelectorAll('a[href], button, summary, input, select, textarea, [tabindex]')]
               .filter((one) => one.checkVisibility({ visibilityProperty: true }));
             window.stops = [];
             addEventListener('focusin', ({ target }) => {
               const { outlineStyle, outlineWidth } = getComputedStyle(target);
               const seen = target.matches(':focus-visible') && outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
               stops.push({ target, seen });
             });
             return controls.length;",
        )
        .await?;
    let count = controls.as_u64().unwrap_or_default();
    ensure!(count > 100, "expected more than 100 controls, seen {count}");
    page.key(Key::Tab, usize::try_from(count)?).await?;
    let wrong = page
        .text(
            "const name = (one) => one ? one.outerHTML.slice(0, 120) : 'nothing';
             for (let at = 0; at < controls.length; at += 1) {
               const stop = stops[at];
               if (stop?.target !== controls[at])
                 return `stop ${at + 1}: expected ${name(controls[at])}, seen ${name(stop?.target)}`;
               if (!stop.seen) return `stop ${at + 1}: expected a visible focus on ${name(stop.target)}`;
             }
             return '';",
        )
        .await?;
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

async fn keys_work_every_kind_of_control(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    for (id, key) in [(expected.any(), Key::Enter), (expected.other(), Key::Space)] {
        let button = format!("button.run[data-run='{id}']");
        page.key_on(&button, key).await?;
        let row = page.answered(id).await?;
        ensure!(row.agrees(), "expected {id} run by a key, seen {row:?}");
        ensure!(
            page.holds(&format!(
                "document.activeElement === document.querySelector(\"{button}\")"
            ))
            .await?,
            "expected the focus still on {button} after its run"
        );
    }
    ensure!(
        !page.status().await?.is_empty(),
        "expected a status to dismiss"
    );
    page.key_on("#dismiss", Key::Enter).await?;
    let status = page.status().await?;
    ensure!(
        status.is_empty(),
        "expected the status dismissed by a key, seen `{status}`"
    );
    // Evidence, the trace within it, an answer of the exercises: whatever opens.
    let evidence = format!("#evidence-{}", expected.any());
    for details in [
        evidence.clone(),
        format!("{evidence} .trace"),
        "details.answer".to_owned(),
    ] {
        for (key, open) in [(Key::Enter, true), (Key::Space, false), (Key::Space, true)] {
            page.key_on(&format!("{details} > summary"), key).await?;
            ensure!(
                page.holds(&format!(
                    "document.querySelector('{details}').open === {open}"
                ))
                .await?,
                "expected {details} {} by a key",
                if open { "opened" } else { "closed" }
            );
        }
    }
    page.key_on("#contents a", Key::Enter).await?;
    ensure!(
        page.holds("location.hash === document.querySelector('#contents a').hash")
            .await?,
        "expected a link of the contents followed by a key"
    );
    page.key_on("button.run-all", Key::Space).await?;
    page.wait("the report of the first table stands", async || {
        let stands = page
            .holds("!document.querySelector('details.report').hidden")
            .await?;
        Ok(stands.then_some(()))
    })
    .await?;
    page.key_on("details.report > summary", Key::Enter).await?;
    ensure!(
        page.holds("document.querySelector('details.report').open")
            .await?,
        "expected the report opened by a key"
    );
    Ok(())
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
    let sizes = page
        .script("return [innerWidth, document.documentElement.scrollWidth]")
        .await?;
    let (window, content) = (sizes[0].as_u64(), sizes[1].as_u64());
    ensure!(window == Some(320), "expected 320 px, seen {sizes}");
    ensure!(
        content <= window,
        "expected a page no wider than its window {when}, seen {sizes}; too wide: {}",
        page.text(
            "return [...document.querySelectorAll('body *')]
               .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
               .map((one) => one.outerHTML.slice(0, 80)).slice(0, 3).join(' ')"
        )
        .await?
    );
    Ok(())
}

/// What moves or could move, by a transition, an animation or a smooth scroll longer than anyone sees.
const MOVING: &str = "
    const seconds = (times) => Math.max(...times.split(',').map((time) => parseFloat(time) * (time.endsWith('ms') ? 0.001 : 1)));
    return [...document.querySelectorAll('*')].filter((one) => {
      const style = getComputedStyle(one);
      return seconds(style.transitionDuration) > 0.01 || seconds(style.animationDuration) > 0.01
        && style.animationName !== 'none' || style.scrollBehavior === 'smooth';
    }).map((one) => one.cloneNode().outerHTML).concat(
      document.getAnimations().map((one) => one.effect.target.cloneNode().outerHTML)).join(' ');";

async fn nothing_moves_for_those_who_ask(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    ensure!(
        page.holds("matchMedia('(prefers-reduced-motion: reduce)').matches")
            .await?,
        "expected a browser whose reader asks for less motion"
    );
    page.run_one(expected.any()).await?;
    page.open_evidence(expected.any()).await?;
    let moving = page.text(MOVING).await?;
    ensure!(
        moving.is_empty(),
        "expected that nothing moves, seen {moving}"
    );
    Ok(())
}

async fn dark_for_those_who_ask(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let seen = page
        .text(
            "const light = (colour) => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
             const { backgroundColor, color } = getComputedStyle(document.body);
             return light(backgroundColor) < 0.2 && light(color) > 0.7 ? '' : `${color} on ${backgroundColor}`;",
        )
        .await?;
    ensure!(seen.is_empty(), "expected light on dark, seen {seen}");
    Ok(())
}
