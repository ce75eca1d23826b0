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
    page.act(
        "const create = URL.createObjectURL;
         URL.createObjectURL = (blob) => {
           blob.text().then((text) => { window.downloaded = text; });
           return create.call(URL, blob);
         };
         HTMLAnchorElement.prototype.click = function () { window.named = this.download; };
         document.querySelector('#every-run').open = true;",
    )
    .await?;
    page.press("#every-run [data-download]").await?;
    let text: String = page
        .see(
            "a file is downloaded",
            "window.downloaded",
            |text: &String| !text.is_empty(),
        )
        .await?;
    page.see(
        "it is called results.json",
        "window.named",
        |name: &String| name == "results.json",
    )
    .await?;
    let report = joined(&[text])?;
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
        page.act(&format!(
            "Object.defineProperty(navigator, 'clipboard', {{ value: {clipboard}, configurable: true }})"
        ))
        .await?;
        let copied = if told == "Copied the " {
            "window.copied"
        } else {
            "String(getSelection())"
        };
        for (what, part) in [
            ("link", format!("/#{id}")),
            ("embed", format!("embed.html?scenario={id}\"")),
        ] {
            page.press(&format!("#evidence-{id} [data-copy='{what}']"))
                .await?;
            page.says("the copying is told", |status| status.starts_with(told))
                .await?;
            page.see(&format!("{part} is copied"), copied, |text: &String| {
                text.contains(&part) && text.contains(&page.server.origin())
            })
            .await?;
            page.press("#dismiss").await?;
            // Else the next one would find it told already.
            page.says("the status is dismissed", str::is_empty).await?;
        }
    }
    Ok(())
}

async fn one_scenario_runs_in_another_page(page: &Page, expected: &Expected) -> Result<()> {
    for id in [expected.any(), expected.other()] {
        page.load_at(&format!("embed.html?scenario={id}")).await?;
        page.engine_ready().await?;
        page.rows(
            &format!("the row of {id} stands alone"),
            |rows| matches!(rows, [row] if row.id == id),
        )
        .await?;
        let row = page.run_one(id).await?;
        ensure!(row.agrees(), "expected {id} to agree, seen {row:?}");
        page.expect(
            "a link leads to the row in the article",
            &format!("document.querySelector('#source').href.endsWith('/#{id}')"),
        )
        .await?;
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
        page.see(
            "the problem is told",
            "document.querySelector('#problem').textContent",
            |text: &String| text.contains(told),
        )
        .await?;
        let others: usize = page
            .settled(
                "telling the problem is the last thing that the page does",
                "document.querySelectorAll('img, tr').length",
            )
            .await?;
        ensure!(
            others == 0,
            "expected a line and nothing else for {query}, seen {others} elements"
        );
    }
    Ok(())
}
