//! The designs of the search as a reader can read them: the source of each shape, cut out of the file that is
//! compiled, with the designs that are this shape as rows of data above it.

use crate::explore::{DESIGNS, Design, Key, Shape};
use crate::markup::escaped;

/// The id of a design in the article.
pub(super) fn id(design: &Design) -> String {
    format!("design-{}", design.id)
}

/// One panel for each shape, closed until its file's name is pressed or a link leads to one of its designs.
///
/// # Errors
///
/// Which file does not have the form that its panel shows.
pub(super) fn html() -> Result<String, String> {
    let mut out = String::from(
        "<div class=\"shapes\" role=\"group\" aria-label=\"Source of the designs\">\n",
    );
    for (position, design) in DESIGNS.iter().enumerate() {
        let (name, _) = file(design.shape);
        let is_same = |other: &&Design| file(other.shape).0 == name;
        if !DESIGNS[..position].iter().any(|other| is_same(&other)) {
            let designs: Vec<&Design> = DESIGNS.iter().filter(is_same).collect();
            out.push_str(&panel(name, &designs)?);
        }
    }
    out.push_str("</div>\n");
    Ok(out)
}

fn panel(name: &str, designs: &[&Design]) -> Result<String, String> {
    let source = Source::of(designs[0])?;
    let mut rows = String::new();
    for design in designs {
        rows.push_str(&row(design, &source)?);
    }
    let borrowed = match source.schema_file {
        own if own == name => String::new(),
        other => format!(", that of <code>{other}</code>"),
    };
    Ok([
        "<details><summary><code>",
        name,
        "</code></summary>\n<table class=\"stack\" role=\"table\" aria-label=\"Designs in ",
        name,
        "\">\n<thead role=\"rowgroup\"><tr role=\"row\">",
        &COLUMNS
            .map(|column| format!("<th scope=\"col\" role=\"columnheader\">{column}</th>"))
            .concat(),
        "</tr></thead>\n<tbody role=\"rowgroup\">\n",
        &rows,
        "</tbody>\n</table>\n<p class=\"part\">Schema",
        &borrowed,
        "</p>\n",
        &code(source.schema),
        "<p class=\"part\">Code</p>\n",
        &code(source.serve),
        "</details>\n",
    ]
    .concat())
}

/// Each line with a class for its depth, so that the style sheet can indent what wraps.
fn code(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        let class = match spaces / 4 {
            0 => String::new(),
            depth => format!(" class=\"depth-{depth}\""),
        };
        format!("<span{class}>{}</span>", escaped(line))
    });
    format!("<pre><code>{}</code></pre>\n", lines.collect::<String>())
}

const COLUMNS: [&str; 5] = [
    "Design",
    "Key names",
    "Payload",
    "Calls on a connection",
    "Begins with",
];

fn row(design: &Design, source: &Source) -> Result<String, String> {
    let key = match design.key {
        Key::None => "nothing",
        Key::Attempt => "the attempt",
        Key::Body => "the payload",
        Key::Intention => "the intention",
    };
    let payload = if design.compares_payload {
        "compared"
    } else {
        "not compared"
    };
    let turns = if design.takes_turns {
        "take turns"
    } else {
        "overlap"
    };
    let begin = match design.shape {
        Shape::OneTransaction(begin) => begin,
        _ => source.begin()?,
    };
    let [_, key_column, payload_column, turns_column, begin_column] = COLUMNS;
    Ok(format!(
        "<tr role=\"row\" id=\"{}\"><th scope=\"row\" role=\"rowheader\">{} <code>{}</code></th>\
         <td role=\"cell\" data-label=\"{key_column}\">{key}</td>\
         <td role=\"cell\" data-label=\"{payload_column}\">{payload}</td>\
         <td role=\"cell\" data-label=\"{turns_column}\">{turns}</td>\
         <td role=\"cell\" data-label=\"{begin_column}\"><code>{begin}</code></td></tr>\n",
        id(design),
        escaped(design.title),
        design.id,
    ))
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../explore/design/", $name)))
    };
}

const ONE_TRANSACTION: (&str, &str) = file!("one_transaction.rs");

/// The file of a shape: its name and its text.
fn file(shape: Shape) -> (&'static str, &'static str) {
    match shape {
        Shape::OneTransaction(_) => ONE_TRANSACTION,
        Shape::Memory => file!("memory.rs"),
        Shape::EffectThenRecord => file!("effect_then_record.rs"),
        Shape::Claim { .. } => file!("claim.rs"),
        Shape::Unique => file!("unique.rs"),
    }
}

/// What a panel shows of a shape.
struct Source {
    file: &'static str,
    /// Where the schema stands.
    schema_file: &'static str,
    schema: &'static str,
    serve: &'static str,
}

impl Source {
    fn of(design: &Design) -> Result<Self, String> {
        let (name, text) = file(design.shape);
        let (own, serve) = items(name, text)?;
        let (schema_file, schema) = match own {
            Some(schema) => (name, Some(schema)),
            None => (
                ONE_TRANSACTION.0,
                items(ONE_TRANSACTION.0, ONE_TRANSACTION.1)?.0,
            ),
        };
        let schema = schema
            .filter(|schema| schema.contains(design.schema()))
            .ok_or_else(|| format!("{schema_file} does not have the schema of {name}"))?;
        Ok(Self {
            file: name,
            schema_file,
            schema,
            serve,
        })
    }

    /// The first statement that begins a transaction.
    fn begin(&self) -> Result<&'static str, String> {
        let (_, from) = self
            .serve
            .split_once("call.run(\"BEGIN")
            .ok_or_else(|| format!("{} begins no transaction", self.file))?;
        let start = self.serve.len() - from.len() - "BEGIN".len();
        let (statement, _) = self.serve[start..]
            .split_once('"')
            .ok_or_else(|| format!("{} has a statement without an end", self.file))?;
        Ok(statement)
    }
}

/// The schema, if the file has one, and the function that serves, each with its comment. They must be all there is but
/// imports, so that a panel leaves out nothing that matters.
fn items(name: &str, text: &'static str) -> Result<(Option<&'static str>, &'static str), String> {
    let is_import = |line: &str| line.starts_with("use ") && line.ends_with(';');
    let mut code = text;
    while let Some((line, rest)) = code.split_once('\n')
        && (line.is_empty() || is_import(line))
    {
        code = rest;
    }
    let (schema, serve) = match code.split_once("\n\n") {
        Some((schema, serve)) if head(schema).starts_with("pub(super) const SCHEMA: ") => {
            (Some(schema), serve)
        }
        _ => (None, code),
    };
    let is_whole = head(serve).starts_with("pub(super) async fn serve(call: &Call")
        && serve.find("\n}\n") == serve.len().checked_sub("\n}\n".len());
    if is_whole {
        Ok((schema, serve))
    } else {
        Err(format!(
            "{name} is not imports, a SCHEMA or none, and `serve`, parted by empty lines"
        ))
    }
}

/// The first line of an item below its comment.
fn head(item: &str) -> &str {
    let mut lines = item.lines();
    lines
        .find(|line| !line.starts_with("///"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::items;

    #[test]
    fn a_file_of_another_form_is_refused() {
        let whole = "use a::b;\n\n/// Why.\npub(super) const SCHEMA: &str = \"\";\n\n/// What.\n\
                     pub(super) async fn serve(call: &Call) {\n    a();\n\n    b();\n}\n";
        let (schema, serve) = items("x.rs", whole).expect("it is whole");
        assert!(schema.is_some_and(|schema| schema.starts_with("/// Why.")));
        assert!(serve.starts_with("/// What.") && serve.ends_with("b();\n}\n"));
        for (from, to) in [
            ("use a::b;\n", "use a::b;\nconst A: u8 = 1;\n"),
            ("const SCHEMA", "const TABLES"),
            ("fn serve", "fn answer"),
            ("}\n", "}\n\nfn b() {}\n"),
            ("}\n", "}"),
        ] {
            let other: &str = whole.replacen(from, to, 1).leak();
            assert!(items("x.rs", other).is_err(), "{other}");
        }
    }
}
