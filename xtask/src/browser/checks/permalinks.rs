//! An address with a scenario's name opens its evidence, one with a design's its source; any other end of an address does
//! nothing.

use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;

use super::{Check, Expected, check};
use crate::browser::driver::Settings;
use crate::browser::page::{Page, Setup};

pub const ALL: &[Check] = &[
    check!(a_permalink_opens_its_evidence, Setup::WATCHED),
    check!(nonsense_in_the_address_does_nothing, Setup::WATCHED),
    check!(
        a_title_opens_its_source_without_a_script,
        Setup {
            settings: Settings {
                javascript: false,
                ..Setup::PLAIN.settings
            },
            ..Setup::PLAIN
        }
    ),
];

async fn opens(page: &Page, id: &str) -> Result<()> {
    page.is_open(id).await?;
    page.expect(
        &format!("the row of {id} is in view"),
        &format!(
            "(({{ top, bottom }}) => bottom > 0 && top < innerHeight)(document.getElementById('{id}').getBoundingClientRect())"
        ),
    )
    .await
}

async fn a_permalink_opens_its_evidence(page: &Page, expected: &Expected) -> Result<()> {
    let ids = expected.ids();
    let (first, last) = (ids[0], ids[ids.len() - 1]);
    page.load_at(&format!("#{first}")).await?;
    opens(page, first).await?;
    let another: bool = page
        .settled(
            "the address has opened what it opens",
            &format!("document.getElementById('evidence-{last}').open"),
        )
        .await?;
    ensure!(
        !another,
        "expected the evidence of {last} closed, seen it open"
    );
    page.engine_ready().await?;
    // Typed into the address.
    page.act(&format!("location.hash = '#{last}'")).await?;
    opens(page, last).await?;
    // By the link that the row shows to pointer and focus.
    let other = expected.other();
    page.key_on(&format!("[id='{other}'] .anchor"), Key::Enter)
        .await?;
    opens(page, other).await?;
    // Closed by the reader, it opens again on the way back, wherever the browser scrolls.
    page.act(&format!(
        "document.getElementById('evidence-{last}').open = false; history.back()"
    ))
    .await?;
    page.is_open(last).await?;
    page.no_errors().await
}

async fn nonsense_in_the_address_does_nothing(page: &Page, expected: &Expected) -> Result<()> {
    let long = "x".repeat(100_000);
    let escaped = format!("%{}", expected.any());
    let nonsense = [
        "",
        "nothing-of-that-name",
        "<img src=x onerror=document.title='struck'>",
        "%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D'struck'%3E",
        "\"]",
        "\"],*,[a=\"",
        "'); document.title = 'struck'; ('",
        "javascript:document.title='struck'",
        "\\",
        "%",
        "%00",
        "%ff%fe",
        "../../x?y#z",
        "__proto__",
        "constructor",
        "evidence-",
        "status",
        "stop",
        "🦀 é \u{202e}",
        &escaped,
        &long,
    ];
    let shape = "JSON.stringify([
        document.title,
        document.querySelectorAll('*').length,
        document.querySelectorAll('details[open]').length,
        document.querySelector('#status').textContent])";
    page.load_with_engine().await?;
    let before: String = page
        .settled("the buttons work, and nothing was pressed", shape)
        .await?;
    let untouched = async |how: &str| {
        let after: String = page
            .settled("the page has seen its address, and its buttons work", shape)
            .await?;
        ensure!(
            after == before,
            "expected {before} as without, seen {after} {how}"
        );
        page.no_errors().await
    };
    for end in nonsense {
        let shown: String = end.chars().take(60).collect();
        // A driver refuses an address that is none; a browser makes one of it.
        let address = url::Url::parse(&format!("{}#{end}", page.server.url()))?;
        let fragment = format!("#{}", address.fragment().unwrap_or_default());
        page.load_at(&fragment).await?;
        page.engine_ready().await?;
        untouched(&format!("on loading with #{shown}")).await?;
    }
    for end in nonsense {
        let shown: String = end.chars().take(60).collect();
        // The page's own listeners were there first, and have had their turn.
        page.finish(
            "const [end, done] = arguments;
             const before = location.href;
             location.hash = end;
             if (location.href === before) done();
             else addEventListener('hashchange', () => done(), { once: true });",
            vec![end.into()],
        )
        .await?;
        untouched(&format!("on moving to #{shown}")).await?;
    }
    let row = page.run_one(expected.any()).await?;
    ensure!(row.agrees(), "expected a page that works, seen {row:?}");
    Ok(())
}

/// Two of them end beside each other. Asks the driver for all of it, since a page without scripts need not run its own.
async fn a_title_opens_its_source_without_a_script(page: &Page, _: &Expected) -> Result<()> {
    // MiniBrowser's own window is narrower.
    page.resize().await?;
    page.load().await?;
    let open = ".shapes > details[open] > table";
    for (index, id) in ["deferred", "claim"].into_iter().enumerate() {
        let seen = page
            .once("nothing but a title opens a source", async |look| {
                Ok(look.elements(open).await?.len())
            })
            .await?;
        ensure!(
            seen == index,
            "expected {index} sources open before {id}, seen {seen}"
        );
        page.follow(&format!(".matrix a[href='#design-{id}']"))
            .await
            .with_context(|| format!("no title leads to {id}"))?;
        page.until(
            &format!("the source of {id} is open"),
            async |look| {
                let row = format!(".shapes > details[open] #design-{id}");
                Ok(look.elements(&row).await?.len())
            },
            |&found| found == 1,
        )
        .await?;
    }
    page.until(
        "two sources stand beside each other",
        async |look| {
            let mut places = Vec::new();
            for table in look.elements(open).await? {
                places.push(table.rectangle().await?);
            }
            Ok(places)
        },
        |places| {
            matches!(places[..], [(left, top, width, _), (right, beside, ..)]
                if top == beside && width > 400.0 && right > left + width)
        },
    )
    .await
    .map(|_| ())
}
