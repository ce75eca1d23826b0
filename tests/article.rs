//! The article: what becomes of good text, and where bad text is refused.
#![cfg(not(target_family = "wasm"))]

use tool_retries::article::{ArticleError, Shown, render};
use tool_retries::explore::DESIGNS;
use tool_retries::json::{Value, parse};
use tool_retries::key::{action_key, published_action_key};

const RESULTS: &str = r#"{
    "digests": {
        "naive_retry": {"checks": "c0ffee", "trace": "7ace"},
        "stable_key_retry": {"checks": "c1", "trace": "7b"},
        "undigested": {"checks": "c2"}
    },
    "scenarios": {
        "naive_retry": {"attempts": 2, "tickets": 2},
        "stable_key_retry": {"tickets": 1},
        "undigested": {"tickets": 1},
        "unknown_to_the_engine": {"tickets": 1}
    }
}"#;

const TEMPLATE: &str = "<title>{{title}}</title><meta content=\"{{ description }}\">\n{{lead}}|{{contents}}|{{article}}";

const HEAD: &str = "# Title\n\nFirst paragraph.\n\n";

const TABLE: &str = "<!-- scenarios: lab | Seven runs -->\n\
    | Scenario | What happens | Recorded |\n\
    | --- | --- | --- |\n\
    | `naive_retry` | call *again* | `{\"attempts\": 2, \"tickets\": 2}` |\n";

fn results() -> Value {
    parse(RESULTS).expect("the results parse")
}

fn page(body: &str) -> Result<String, ArticleError> {
    render(TEMPLATE, &format!("{HEAD}{body}"), &results(), &|id| {
        (id != "unknown_to_the_engine").then(|| Shown {
            evidence: format!("<p>evidence of {id}</p>"),
            diagram: format!("<svg>{id}</svg>"),
        })
    })
}

fn rendered(body: &str) -> String {
    page(body).unwrap_or_else(|error| panic!("{error}"))
}

/// That `body` is refused with `expected` in the message.
fn refused(body: &str, expected: &str) {
    match page(body) {
        Ok(html) => panic!("accepted: {html}"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}"),
    }
}

#[test]
fn title_and_description_come_from_the_text_and_are_escaped() {
    let html = render(
        TEMPLATE,
        "# On `a` & \"b\"\n\nOne *short* {{title}}\nparagraph.\n\nMore.\n",
        &results(),
        &|_| None,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert!(html.starts_with(
        "<title>On a &amp; &quot;b&quot;</title><meta content=\"One short {{title}} paragraph.\">"
    ));
    assert!(
        html.contains("<h1>On <code>a</code> &amp; \"b\"</h1>"),
        "{html}"
    );
}

#[test]
fn sections_get_stable_anchors_and_contents() {
    let html = rendered("## A `key` – twice\n\n### Part\n\n### Part\n\n## Report\n\ntext\n");
    for id in ["a-key-twice", "part", "part-2", "report-2"] {
        assert!(html.contains(&format!(" id=\"{id}\">")), "{id} in {html}");
    }
    let contents = html.split('|').nth(1).expect("contents").replace('\n', "");
    assert_eq!(
        contents,
        "<ol><li><a href=\"#a-key-twice\">A <code>key</code> – twice</a>\
         <ol><li><a href=\"#part\">Part</a></li><li><a href=\"#part-2\">Part</a></li></ol></li>\
         <li><a href=\"#report-2\">Report</a></li></ol>"
    );
}

#[test]
fn a_heading_never_takes_the_id_of_a_scenario() {
    let html = render(
        TEMPLATE,
        &format!("{HEAD}## Solo\n"),
        &parse(r#"{"scenarios": {"solo": {}}}"#).expect("parses"),
        &|_| None,
    );
    assert!(html.is_ok_and(|html| html.contains("<h2 id=\"solo-2\">")));
}

#[test]
fn tables_carry_classes_and_roles_but_no_style() {
    let html = rendered("| A | B |\n| :---: | ---: |\n| x | `y` |\n");
    assert!(html.contains("<th scope=\"col\" role=\"columnheader\" class=\"centre\">A</th>"));
    assert!(
        html.contains("<td role=\"cell\" class=\"right\" data-label=\"B\"><code>y</code></td>")
    );
    assert!(!html.contains("style="));
}

#[test]
fn a_scenario_table_is_complete_without_a_script() {
    let html = rendered(TABLE);
    for part in [
        "<caption id=\"caption-lab\">Seven runs</caption>",
        "id=\"run-all\" data-run-all=\"lab\" hidden>Run all</button>",
        "id=\"naive_retry\" data-scenario=\"naive_retry\" data-recorded=\"{&quot;attempts&quot;: 2, &quot;tickets&quot;: 2}\" data-checks=\"c0ffee\" data-trace=\"7ace\"",
        "data-run=\"naive_retry\" aria-label=\"Run naive_retry\" hidden>Run</button>",
        "call <em>again</em>",
        "<details class=\"evidence\" id=\"evidence-naive_retry\" data-evidence=\"naive_retry\">",
        "<p>evidence of naive_retry</p>",
        "<pre id=\"report\"></pre>",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert_eq!(html.matches("scope=\"col\"").count(), 6);
    assert!(!html.contains("scenarios:"), "the marker is gone");
}

#[test]
fn a_second_table_has_a_button_and_a_report_of_its_own() {
    let second = TABLE
        .replace("lab", "more")
        .replace("naive_retry", "stable_key_retry")
        .replace("{\"attempts\": 2, \"tickets\": 2}", "{\"tickets\": 1}");
    let html = rendered(&format!("{TABLE}\nBetween.\n\n{second}"));
    assert!(html.contains("id=\"run-all-more\" data-run-all=\"more\""));
    assert!(html.contains("<pre id=\"report-more\">"));
    refused(
        &format!("{TABLE}\n{TABLE}"),
        "line 10: a second table of the group \"lab\"",
    );
}

#[test]
fn what_is_called_recorded_must_be_recorded() {
    refused(
        &TABLE.replace("\"tickets\": 2", "\"tickets\": 1"),
        "line 8: naive_retry is given as {\"attempts\": 2, \"tickets\": 1}, but results.json records {\"attempts\": 2, \"tickets\": 2}",
    );
    refused(
        &TABLE.replace("naive_retry", "no_such"),
        "line 8: results.json has no scenarios.no_such",
    );
    let one = |id: &str| {
        TABLE
            .replace("naive_retry", id)
            .replace("{\"attempts\": 2, \"tickets\": 2}", "{\"tickets\": 1}")
    };
    refused(
        &one("undigested"),
        "results.json has no digests.undigested.trace",
    );
    refused(
        &one("unknown_to_the_engine"),
        "results.json has no digests.unknown_to_the_engine.checks",
    );
}

#[test]
fn a_malformed_scenario_table_names_its_line() {
    refused(
        &TABLE.replace("Recorded", "Observed"),
        "expected Scenario | What happens | Recorded",
    );
    refused(
        &TABLE.replace("`naive_retry`", "naive_retry"),
        "line 8: expected one code span",
    );
    refused(
        &format!("{TABLE}| `naive_retry` | again | `{{\"attempts\": 2, \"tickets\": 2}}` |\n"),
        "line 9: this scenario has a row already",
    );
    refused(
        "<!-- scenarios: lab -->\n\n| a |\n| - |\n",
        "line 5: expected `<!-- scenarios:",
    );
    refused(
        "<!-- scenarios: Lab | x -->\n",
        "line 5: expected `<!-- scenarios:",
    );
    refused(
        "<!-- scenarios: lab | x -->\n\nText.\n",
        "line 5: no table stands directly after",
    );
    refused(
        "<!-- scenarios: lab | x -->\n",
        "line 5: no table stands directly after",
    );
}

#[test]
fn an_answer_is_folded_away() {
    let html = rendered(
        "<!-- answer -->\n> See [it](#here).\n>\n> > Quoted.\n>\n> ```rust\n> one();\n> ```\n\n> Plain.\n\n## Here\n",
    );
    assert!(
        html.contains(
            "<details class=\"answer\"><summary>Show the answer</summary>\n\
             <p>See <a href=\"#here\">it</a>.</p>\n\
             <blockquote>\n<p>Quoted.</p>\n</blockquote>\n\
             <pre><code class=\"language-rust\">one();\n</code></pre>\n\
             </details>\n\
             <blockquote>\n<p>Plain.</p>\n</blockquote>\n"
        ),
        "{html}"
    );
    for body in [
        "<!-- answer -->\n",
        "<!-- answer -->\n\nText.\n\n> Too late.\n",
        "<!-- answer -->\n\n<!-- answer -->\n> Twice.\n",
        "<!-- answer -->\n## Section\n",
        "> Quoted.\n>\n> <!-- answer -->\n\n> Outside.\n",
    ] {
        let line = 5 + body[..body.find("<!--").expect("a marker")]
            .matches('\n')
            .count();
        refused(
            body,
            &format!("line {line}: no block quote stands directly after this answer marker"),
        );
    }
    refused("<!-- answer: x -->\n> x\n", "line 5: raw HTML");
    refused(
        "<!-- scenarios: lab | x -->\n\n<!-- answer -->\n> x\n",
        "line 5: no table stands directly after",
    );
}

#[test]
fn raw_html_is_refused() {
    refused(
        "<div>block</div>\n",
        "line 5: raw HTML \"<div>block</div>\"",
    );
    refused("in <b>line</b>\n", "line 5: raw HTML \"<b>\"");
    refused("<!-- a note -->\n", "line 5: raw HTML");
    refused("| a |\n| - |\n| <i>x</i> |\n", "line 7: raw HTML \"<i>\"");
    assert!(rendered("`<b>` and \\<b>\n").contains("<code>&lt;b&gt;</code> and &lt;b&gt;"));
    assert!(rendered("```text\n<b>\n```\n").contains("&lt;b&gt;"));
}

#[test]
fn links_lead_somewhere_and_images_stay_home() {
    refused(
        "[x](javascript:alert(1))\n",
        "line 5: \"javascript:alert(1)\" is neither",
    );
    refused("[x](/root)\n", "\"/root\" is neither");
    refused("[x](//host/y)\n", "\"//host/y\" is neither");
    refused("[x](#nowhere)\n", "\"#nowhere\" leads to no heading");
    refused(
        "![x](https://example.org/x.png)\n",
        "loads nothing from elsewhere",
    );
    let html = rendered(&format!(
        "[a](https://example.org) [b](lab.zip) [c](#here) [d](#naive_retry) ![e](e.svg)\n\n## Here\n\n{TABLE}"
    ));
    assert!(html.contains("<img src=\"e.svg\" alt=\"e\""));
}

#[test]
fn title_and_description_are_required_once() {
    let bare = |text: &str| render(TEMPLATE, text, &results(), &|_| None);
    assert_eq!(bare("text\n"), Err(ArticleError::NoTitle));
    assert_eq!(bare("# Title\n"), Err(ArticleError::NoDescription));
    assert_eq!(
        bare("# Title\n\ntext\n\n# Title\n"),
        Err(ArticleError::SecondTitle { line: 5 })
    );
}

#[test]
fn a_placeholder_that_nothing_fills_is_refused() {
    let filled = |template: &str| render(template, HEAD, &results(), &|_| None);
    assert_eq!(
        filled("a\n{{titel}}"),
        Err(ArticleError::Template {
            line: 2,
            placeholder: "{{titel}}".to_owned()
        })
    );
    assert!(filled("{{title").is_err());
}

/// The article itself: every scenario stands in the table of its group, in the registry's order, and what its tables call
/// recorded is what `results.json` records (anything else does not render).
#[test]
fn the_article_agrees_with_the_record() {
    let results = parse(include_str!("../results.json")).expect("the record parses");
    let page = render(
        include_str!("../www/index.html"),
        include_str!("../article.md"),
        &results,
        &|id| {
            Some(Shown {
                evidence: format!("evidence of {id}"),
                ..Shown::default()
            })
        },
    )
    .expect("the article renders");
    let tables: Vec<(&str, Vec<&str>)> = page
        .split("<div class=\"scenarios\" data-group=\"")
        .skip(1)
        .map(|table| {
            let until_quote = |text: &'_ str| text.find('"').unwrap_or_default();
            let rows = table.split(" data-scenario=\"").skip(1);
            (
                &table[..until_quote(table)],
                rows.map(|row| &row[..until_quote(row)]).collect(),
            )
        })
        .collect();
    let groups = tool_retries::scenario::groups();
    let expected: Vec<(&str, Vec<&str>)> = groups
        .into_iter()
        .map(|group| {
            let all = tool_retries::scenario::all().iter();
            let own = all.filter(|scenario| scenario.group == group);
            (group, own.map(|scenario| scenario.id).collect())
        })
        .collect();
    assert_eq!(tables, expected);
}

/// What the article says of two spellings is what both derivations make of them.
#[test]
fn the_table_of_spellings_is_true() {
    let (_, table) = include_str!("../article.md")
        .split_once("| Two spellings | One key? | Why |\n")
        .expect("the table of spellings");
    let rows: Vec<&str> = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!(rows.len(), 7);
    // A cell that is no JSON by itself is text.
    let value = |cell: &str| {
        parse(cell)
            .or_else(|_| parse(&format!("\"{cell}\"")))
            .unwrap()
    };
    for row in rows {
        let spans: Vec<&str> = row.split('`').collect();
        let (one, other) = (value(spans[1]), value(spans[3]));
        let same = spans[4].starts_with(" | yes |");
        assert!(same || spans[4].starts_with(" | no |"), "{row}");
        for derive in [action_key, published_action_key] {
            let keys = [&one, &other].map(|value| derive("run", "tool", value).unwrap());
            assert_eq!(keys[0] == keys[1], same, "{row}");
        }
    }
}

/// A diagram stands in the open, with its caption as text and a way to its row.
#[test]
fn a_diagram_stands_in_the_text() {
    let html = rendered(&format!(
        "Before it.\n\n<!-- diagram: naive_retry | Two & two -->\n\n{TABLE}"
    ));
    assert!(html.contains("<p>Before it.</p>\n<figure>"), "{html}");
    assert!(
        html.contains(
            "aria-label=\"Sequence diagram of naive_retry\"><svg>naive_retry</svg></div>"
        ),
        "{html}"
    );
    assert!(
        html.contains("<figcaption>Two &amp; two <a href=\"#naive_retry\">"),
        "{html}"
    );
    refused("<!-- diagram: naive_retry | No row -->\n", "#naive_retry");
    refused(
        "<!-- diagram: unknown_to_the_engine | C -->\n",
        "no scenario of the engine",
    );
    refused("<!-- diagram: naive_retry -->\n", "expected `<!-- diagram:");
}

/// Whoever runs no script reads every verdict and every token; what needs the engine is hidden.
#[test]
fn the_matrix_and_the_workbench_are_complete_without_a_script() {
    let results = parse(include_str!("../results.json")).expect("the record parses");
    let markdown = format!("{HEAD}<!-- matrix -->\n\n<!-- workbench -->\n\n<!-- designs -->\n");
    let html = render(TEMPLATE, &markdown, &results, &|_| None).expect("it renders");
    let Some(Value::Object(designs)) = results.get("matrix").and_then(|all| all.get("rollback"))
    else {
        panic!("no matrix");
    };
    let mut cells = 0;
    for (_, faults) in designs.iter() {
        let Value::Object(faults) = faults else {
            panic!("no faults");
        };
        for (_, cell) in faults.iter() {
            cells += 1;
            let text = |name| cell.get(name).and_then(Value::as_str);
            let verdict = text("verdict").expect("a verdict");
            assert!(html.contains(&format!(" title=\"{verdict}\"")), "{verdict}");
            if let Some(token) = text("token") {
                let token = format!("<code class=\"token\">{token}</code>");
                assert!(html.contains(&token), "{token}");
            }
        }
    }
    assert_eq!(cells, html.matches(" data-explore ").count());
    assert!(html.contains("<section id=\"workbench\" aria-label=\"Workbench\" hidden>"));
    let table = &html[..html.find("<section").expect("a workbench")];
    assert_eq!(
        table.matches("<button").count(),
        table.matches(" hidden>").count()
    );
}

/// The source of each shape as its file has it, with the data of its designs above it, one file after the other.
#[test]
fn each_design_stands_with_its_data_above_its_source() {
    let html = rendered("<!-- designs -->\n");
    let panels: Vec<&str> = html.split("<details>").skip(1).collect();
    let files = [
        (
            "one_transaction.rs",
            include_str!("../src/explore/design/one_transaction.rs"),
        ),
        ("memory.rs", include_str!("../src/explore/design/memory.rs")),
        (
            "effect_then_record.rs",
            include_str!("../src/explore/design/effect_then_record.rs"),
        ),
        ("claim.rs", include_str!("../src/explore/design/claim.rs")),
        ("unique.rs", include_str!("../src/explore/design/unique.rs")),
    ];
    assert_eq!(panels.len(), files.len());
    for (panel, (name, text)) in panels.iter().zip(files) {
        let panel = shown(panel);
        assert!(panel.contains(&format!("<summary><code>{name}</code></summary>")));
        let pieces: Vec<&str> = panel
            .split("<pre><code>")
            .skip(1)
            .filter_map(|piece| Some(piece.split_once("</code></pre>")?.0))
            .collect();
        let [schema, code] = pieces[..] else {
            panic!("{name}: {panel}");
        };
        let own_schema = panel.contains("<p class=\"part\">Schema</p>");
        let written = if own_schema {
            format!("{schema}\n\n{code}")
        } else {
            code.to_owned()
        };
        let imports = text.strip_suffix(&written).expect("the file ends so");
        assert!(
            imports
                .lines()
                .all(|line| line.is_empty() || line.starts_with("use "))
        );
        if !own_schema {
            let owner = "<p class=\"part\">Schema, that of <code>one_transaction.rs</code></p>";
            assert!(panel.contains(owner), "{panel}");
        }
    }
    let data = [
        ("no_key", 0, "nothing", "not compared", "BEGIN IMMEDIATE"),
        (
            "key_per_attempt",
            0,
            "the attempt",
            "compared",
            "BEGIN IMMEDIATE",
        ),
        (
            "key_from_body",
            0,
            "the payload",
            "compared",
            "BEGIN IMMEDIATE",
        ),
        ("memory", 1, "the intention", "compared", "BEGIN IMMEDIATE"),
        (
            "effect_then_record",
            2,
            "the intention",
            "compared",
            "BEGIN IMMEDIATE",
        ),
        (
            "no_comparison",
            0,
            "the intention",
            "not compared",
            "BEGIN IMMEDIATE",
        ),
        ("deferred", 0, "the intention", "compared", "BEGIN DEFERRED"),
        (
            "shared_connection",
            0,
            "the intention",
            "compared",
            "BEGIN IMMEDIATE",
        ),
        (
            "claim_for_ever",
            3,
            "the intention",
            "compared",
            "BEGIN IMMEDIATE",
        ),
        ("claim", 3, "the intention", "compared", "BEGIN IMMEDIATE"),
        ("unique", 4, "the intention", "compared", "BEGIN"),
        (
            "immediate",
            0,
            "the intention",
            "compared",
            "BEGIN IMMEDIATE",
        ),
    ];
    assert_eq!(DESIGNS.len(), data.len());
    for (design, (id, panel, key, payload, begin)) in DESIGNS.iter().zip(data) {
        assert_eq!(design.id, id);
        let turns = match id {
            "shared_connection" => "overlap",
            _ => "take turns",
        };
        let row = [
            &format!("<tr role=\"row\" id=\"design-{id}\"><th scope=\"row\" role=\"rowheader\">"),
            design.title,
            &format!(" <code>{id}</code></th>"),
            &format!("<td role=\"cell\" data-label=\"Key names\">{key}</td>"),
            &format!("<td role=\"cell\" data-label=\"Payload\">{payload}</td>"),
            &format!("<td role=\"cell\" data-label=\"Calls on a connection\">{turns}</td>"),
            &format!(
                "<td role=\"cell\" data-label=\"Begins with\"><code>{begin}</code></td></tr>\n"
            ),
        ]
        .concat();
        let panel = shown(panels[panel]);
        assert!(panel.contains(&row), "{row} in {panel}");
        let schema = format!("{}\";</code></pre>", design.schema());
        assert!(panel.contains(&schema), "{schema} in {panel}");
    }
}

/// Text as a reader sees it, without the marks of lines of code.
fn shown(html: &str) -> String {
    let marks = (1..=5).map(|depth| (format!("<span class=\"depth-{depth}\">"), ""));
    let entities = [
        ("<span>", ""),
        ("</span>", ""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    let entities = entities.map(|(from, to)| (from.to_owned(), to));
    marks
        .chain(entities)
        .fold(html.to_owned(), |html, (from, to)| html.replace(&from, to))
}

/// Every row of the matrix leads to a design, and nothing else may be called like one.
#[test]
fn the_matrix_leads_to_the_designs() {
    let results = parse(include_str!("../results.json")).expect("the record parses");
    let both = |body: &str| render(TEMPLATE, &format!("{HEAD}{body}"), &results, &|_| None);
    let html = both("<!-- matrix -->\n\n<!-- designs -->\n").expect("it renders");
    for design in DESIGNS {
        let link = format!("<a href=\"#design-{}\">", design.id);
        assert!(html.contains(&link), "{link}");
    }
    let alone = both("<!-- matrix -->\n").expect_err("links without a target");
    assert!(
        alone
            .to_string()
            .contains("\"#design-no_key\" leads to no heading")
    );
    refused(
        "## Design claim\n\n<!-- designs -->\n",
        "line 7: the id \"design-claim\" is taken",
    );
    refused(
        "<!-- designs -->\n\n<!-- designs -->\n",
        "line 7: the id \"design-no_key\" is taken",
    );
}
