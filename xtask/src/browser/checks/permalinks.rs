//! An address with a scenario's name opens its evidence, one with a design's its source; any other end of an address does
//! nothing.

use anyhow::{Context, Result, ensure};
use fantoccini::Locator;
use fantoccini::key::Key;

use super::{Check, Expected, check};
use crate::browser::driver::{Settings, WINDOW};
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

async fn is_opened(page: &Page, id: &str) -> Result<()> {
    page.wait(&format!("the evidence of {id} is open"), async || {
        Ok(page.is_open(id).await?.then_some(()))
    })
    .await
}

async fn opens(page: &Page, id: &str) -> Result<()> {
    is_opened(page, id).await?;
    page.wait(&format!("the row of {id} is in view"), async || {
        let seen = page
            .holds(&format!(
                "(({{ top, bottom }}) => bottom > 0 && top < innerHeight)(document.getElementById('{id}').getBoundingClientRect())"
            ))
            .await?;
        Ok(seen.then_some(()))
    })
    .await
}

async fn a_permalink_opens_its_evidence(page: &Page, expected: &Expected) -> Result<()> {
    let ids = expected.ids();
    let (first, last) = (ids[0], ids[ids.len() - 1]);
    page.load_at(&format!("#{first}")).await?;
    opens(page, first).await?;
    ensure!(
        !page.is_open(last).await?,
        "expected the evidence of {last} closed, seen it open"
    );
    page.engine_ready().await?;
    // Typed into the address.
    page.script(&format!("location.hash = '#{last}'")).await?;
    opens(page, last).await?;
    // By the link that the row shows to pointer and focus.
    let other = expected.other();
    page.key_on(&format!("[id='{other}'] .anchor"), Key::Enter)
        .await?;
    opens(page, other).await?;
    // Closed by the reader, it opens again on the way back, wherever the browser scrolls.
    page.script(&format!(
        "document.getElementById('evidence-{last}').open = false; history.back()"
    ))
    .await?;
    is_opened(page, last).await?;
    no_errors(page).await
}

async fn no_errors(page: &Page) -> Result<()> {
    let errors = page.errors().await?;
    ensure!(
        errors.is_empty(),
        "expected no error, seen {}",
        errors.join("; ")
    );
    Ok(())
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
    let shape = "return JSON.stringify([
        document.title,
        document.querySelectorAll('*').length,
        document.querySelectorAll('details[open]').length,
        document.querySelector('#status').textContent])";
    page.load_with_engine().await?;
    let before = page.text(shape).await?;
    let untouched = async |how: &str| {
        let after = page.text(shape).await?;
        ensure!(
            after == before,
            "expected {before} as without, seen {after} {how}"
        );
        no_errors(page).await
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
        page.session
            .client()?
            .execute_async(
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
    let client = page.session.client()?;
    // MiniBrowser's own window is narrower.
    let (width, height) = WINDOW;
    client.set_window_size(width, height).await?;
    page.load().await?;
    let open = Locator::Css(".shapes > details[open] > table");
    for (index, id) in ["deferred", "claim"].into_iter().enumerate() {
        let seen = client.find_all(open).await?.len();
        ensure!(
            seen == index,
            "expected {index} sources open before {id}, seen {seen}"
        );
        let link = format!(".matrix a[href='#design-{id}']");
        client
            .find(Locator::Css(&link))
            .await
            .with_context(|| format!("no title leads to {id}"))?
            .click()
            .await?;
        page.wait(&format!("the source of {id} is open"), async || {
            let row = format!(".shapes > details[open] #design-{id}");
            let found = client.find_all(Locator::Css(&row)).await?;
            Ok((found.len() == 1).then_some(()))
        })
        .await?;
    }
    let mut places = Vec::new();
    for table in client.find_all(open).await? {
        places.push(table.rectangle().await?);
    }
    ensure!(
        matches!(places[..], [(left, top, width, _), (right, beside, ..)]
            if top == beside && width > 400.0 && right > left + width),
        "expected two sources beside each other, seen {places:?}"
    );
    Ok(())
}
