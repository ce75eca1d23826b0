//! What readers take along: results, links, the lab, and one scenario in a page of theirs.

use anyhow::{Result, ensure};

use super::{Check, Expected, check, joined};
use crate::browser::page::{Page, Setup};

pub const ALL: &[Check] = &[
    check!(results_are_downloaded_as_shown, Setup::PLAIN),
    check!(links_and_embed_code_are_copied, Setup::PLAIN),
    check!(one_scenario_runs_in_another_page, Setup::PLAIN),
    check!(an_embedded_nonsense_is_told, Setup::PLAIN),
];

async fn results_are_downloaded_as_shown(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    // The file is caught on its way: where browsers put downloads differs.
    page.script(
        "window.files = [];
         const create = URL.createObjectURL;
         URL.createObjectURL = (blob) => { files.push(blob.text()); return create.call(URL, blob); };
         HTMLAnchorElement.prototype.click = function () { window.named = this.download; };",
    )
    .await?;
    page.script("document.querySelector('#every-run').open = true")
        .await?;
    page.press("#every-run [data-download]").await?;
    let text = page
        .session
        .client()?
        .execute_async(
            "const done = arguments[0]; files[0].then((text) => done([text, window.named]));",
            Vec::new(),
        )
        .await?;
    ensure!(
        text[1] == "results.json",
        "expected a file results.json, seen {}",
        text[1]
    );
    let report = joined(&[text[0].as_str().unwrap_or_default().to_owned()])?;
    ensure!(
        report == expected.report,
        "expected the record of all runs to be results.json"
    );
    Ok(())
}

async fn links_and_embed_code_are_copied(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let id = expected.any();
    page.open_evidence(id).await?;
    // Where a browser refuses, the page selects the text; both ways are tried.
    for (clipboard, told) in [
        (
            "{ writeText: async (text) => { window.copied = text; } }",
            "Copied the ",
        ),
        (
            "{ writeText: () => Promise.reject(new Error('refused')) }",
            "The browser does not let",
        ),
    ] {
        page.script(&format!(
            "Object.defineProperty(navigator, 'clipboard', {{ value: {clipboard}, configurable: true }})"
        ))
        .await?;
        for (what, part) in [
            ("link", format!("/#{id}")),
            ("embed", format!("embed.html?scenario={id}\"")),
        ] {
            page.press(&format!("#evidence-{id} [data-copy='{what}']"))
                .await?;
            let status = page
                .wait("the copying is told", async || {
                    let status = page.status().await?;
                    Ok(status.starts_with(told).then_some(status))
                })
                .await?;
            let text = if told == "Copied the " {
                page.text("return window.copied").await?
            } else {
                page.text("return String(getSelection())").await?
            };
            ensure!(
                text.contains(&part) && text.contains(&page.server.origin()),
                "expected {part} copied, seen {text}; told {status}"
            );
            page.press("#dismiss").await?;
        }
    }
    Ok(())
}

async fn one_scenario_runs_in_another_page(page: &Page, expected: &Expected) -> Result<()> {
    for id in [expected.any(), expected.other()] {
        page.load_at(&format!("embed.html?scenario={id}")).await?;
        page.engine_ready().await?;
        let rows = page.rows().await?;
        ensure!(
            rows.len() == 1 && rows[0].id == id,
            "expected the row of {id} alone, seen {rows:?}"
        );
        let row = page.run_one(id).await?;
        ensure!(row.agrees(), "expected {id} to agree, seen {row:?}");
        ensure!(
            page.holds(&format!(
                "document.querySelector('#source').href.endsWith('/#{id}')"
            ))
            .await?,
            "expected a link to the row in the article"
        );
    }
    Ok(())
}

async fn an_embedded_nonsense_is_told(page: &Page, _: &Expected) -> Result<()> {
    for (query, told) in [
        ("", "must name one scenario"),
        ("?scenario=", "must name one scenario"),
        (
            "?scenario=naive_retry&scenario=naive_retry",
            "must name one scenario",
        ),
        ("?scenario=nobody", "no scenario called nobody"),
        (
            "?scenario=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
            "no scenario called <img src=x",
        ),
    ] {
        page.load_at(&format!("embed.html{query}")).await?;
        page.wait("the problem is told", async || {
            let text = page
                .text("return document.querySelector('#problem').textContent")
                .await?;
            Ok(text.contains(told).then_some(()))
        })
        .await?;
        ensure!(
            page.holds("document.querySelectorAll('img, tr').length === 0")
                .await?,
            "expected a line and nothing else for {query}"
        );
    }
    Ok(())
}
