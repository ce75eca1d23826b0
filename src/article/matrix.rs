use crate::explore::{DESIGNS, Design, FAULTS, FaultClass, Invariant};
use crate::json::Value;
use crate::markup::escaped;

/// The recorded searches as a table: designs by fault classes, in each cell the verdict.
///
/// # Errors
///
/// What the results lack, as a path in them.
pub(super) fn html(results: &Value) -> Result<String, String> {
    let mut out = String::from(
        "<table class=\"stack matrix\" role=\"table\">\n<caption>What every schedule of every design \
         came to</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">\
         <th scope=\"col\" role=\"columnheader\">Design</th>",
    );
    for class in FAULTS {
        out.extend([
            "<th scope=\"col\" role=\"columnheader\">",
            class.title,
            " <span class=\"bounds\">",
            &class.bounds.to_string(),
            "</span></th>",
        ]);
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for design in DESIGNS {
        out.extend([
            "<tr role=\"row\">\n<th scope=\"row\" role=\"rowheader\" id=\"design-",
            design.id,
            "\">",
            &escaped(design.title),
            "</th>\n",
        ]);
        for class in FAULTS {
            out.push_str(&cell(results, design, class)?);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    Ok(out)
}

fn cell(results: &Value, design: &Design, class: &FaultClass) -> Result<String, String> {
    let cell = results
        .get("matrix")
        .and_then(|matrix| matrix.get(design.id)?.get(class.id));
    let member = |name: &str| {
        let found = cell.and_then(|cell| cell.get(name));
        found.ok_or_else(|| format!("matrix.{}.{}.{name}", design.id, class.id))
    };
    let (safe, verdict) = (member("safe")?, member("verdict")?);
    let (safe, verdict) = (safe.as_bool(), verdict.as_str().unwrap_or_default());
    let (schedules, bad) = (member("schedules")?.compact(), member("bad")?.compact());
    let broken = match member("broken")? {
        Value::Array(broken) => broken.first().and_then(Value::as_str),
        _ => None,
    };
    let (class_name, words, count) = match broken.and_then(Invariant::find) {
        Some(broken) => (
            "breaks",
            broken.short_breach(),
            format!("{bad} of {schedules}"),
        ),
        None if safe == Some(true) => ("safe", "safe", schedules),
        None => ("open", "nothing shown", schedules),
    };
    Ok([
        "<td role=\"cell\" class=\"",
        class_name,
        "\" data-label=\"",
        &escaped(class.title),
        "\" title=\"",
        &escaped(verdict),
        "\"><span class=\"verdict\">",
        words,
        "</span> <span class=\"count\">",
        &count,
        "</span></td>\n",
    ]
    .concat())
}
