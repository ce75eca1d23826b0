use crate::markup::escaped;
use crate::outcome::Plot;

const WIDTH: u64 = 640;
const BARS_HEIGHT: u64 = 160;
/// Room above the bars for their numbers, and below for the labels.
const MARGIN: u64 = 24;
/// With more bars than this only the first and the last are labelled, and none is numbered.
const MOST_LABELLED: usize = 10;

/// A plot as bars, with a description for those who do not see it.
#[must_use]
pub fn bars(plot: &Plot) -> String {
    let height = BARS_HEIGHT + 2 * MARGIN;
    let mut out = format!(
        "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-label=\"{}\">\n",
        escaped(&description(plot))
    );
    let highest = plot.bars.iter().copied().max().unwrap_or(0).max(1);
    let count = plot.bars.len().max(1) as u64;
    let labelled = plot.bars.len() <= MOST_LABELLED;
    let floor = MARGIN + BARS_HEIGHT;
    let edge = |index: u64| index * WIDTH / count;
    for (index, (&bar, label)) in (0u64..).zip(plot.bars.iter().zip(&plot.labels)) {
        let (left, right) = (edge(index), edge(index + 1));
        let tall = u128::from(bar) * u128::from(BARS_HEIGHT) / u128::from(highest);
        // A bar that stands for something is seen.
        let tall = if bar > 0 { (tall as u64).max(1) } else { 0 };
        let gap = if labelled { 8 } else { 0 };
        out.push_str(&format!(
            "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{tall}\"><title>{}: {bar} {}</title></rect>\n",
            left + gap,
            floor - tall,
            (right - left).saturating_sub(2 * gap).max(1),
            escaped(label),
            escaped(&plot.unit),
        ));
        let middle = (left + right) / 2;
        if labelled {
            text(
                &mut out,
                middle,
                floor - tall - 6,
                "middle",
                &bar.to_string(),
            );
            text(&mut out, middle, floor + 16, "middle", label);
        }
    }
    if !labelled {
        ends(&mut out, plot, highest);
    }
    axis(&mut out);
    out
}

/// A plot of calls as one area, and within it, as a line, what the server did of them.
#[must_use]
pub fn load(calls: &Plot, served: &[u64]) -> String {
    let height = BARS_HEIGHT + 2 * MARGIN;
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    // The server does no more in all, but it may do more than come within one bar.
    let highest = most(&calls.bars).max(most(served)).max(1);
    let Plot { title, labels, .. } = calls;
    let last = labels.last().map_or("", String::as_str);
    let mut out = format!(
        "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-label=\"{}\">\n\
         <title>Area: calls made. Line: calls done.</title>\n",
        escaped(&format!(
            "{title}, up to {last}: at most {} made and {} done",
            most(&calls.bars),
            most(served)
        ))
    );
    for (class, values) in [("bar", &calls.bars[..]), ("line", served)] {
        let floor = MARGIN + BARS_HEIGHT;
        let count = values.len().max(1) as u64;
        out.push_str(&format!("<path class=\"{class}\" d=\"M0 {floor}"));
        for (index, &value) in (1u64..).zip(values) {
            let tall = u128::from(value) * u128::from(BARS_HEIGHT) / u128::from(highest);
            let (y, right) = (floor - tall as u64, index * WIDTH / count);
            out.push_str(&format!("V{y}H{right}"));
        }
        out.push_str(&format!("V{floor}\"/>\n"));
    }
    ends(&mut out, calls, highest);
    axis(&mut out);
    out
}

/// What the highest bar stands for, and the labels of the first and the last.
fn ends(out: &mut String, plot: &Plot, highest: u64) {
    let floor = MARGIN + BARS_HEIGHT;
    text(
        out,
        0,
        MARGIN - 8,
        "start",
        &format!("{highest} {}", plot.unit),
    );
    let ends = [
        (0, "start", plot.labels.first()),
        (WIDTH, "end", plot.labels.last()),
    ];
    for (x, anchor, label) in ends {
        text(out, x, floor + 16, anchor, label.map_or("", String::as_str));
    }
}

fn axis(out: &mut String) {
    let floor = MARGIN + BARS_HEIGHT;
    out.push_str(&format!(
        "<line class=\"axis\" x1=\"0\" y1=\"{floor}\" x2=\"{WIDTH}\" y2=\"{floor}\"/>\n</svg>\n"
    ));
}

fn description(plot: &Plot) -> String {
    let Plot {
        title,
        unit,
        labels,
        bars,
    } = plot;
    if bars.len() <= MOST_LABELLED {
        let parts: Vec<String> = labels
            .iter()
            .zip(bars)
            .map(|(label, bar)| format!("{label} {bar}"))
            .collect();
        return format!("{title}, in {unit}: {}", parts.join(", "));
    }
    let mut highest = (0, "");
    for (&bar, label) in bars.iter().zip(labels) {
        if bar > highest.0 {
            highest = (bar, label);
        }
    }
    let busy = bars.iter().filter(|&&bar| bar > 0).count();
    format!(
        "{title}: {} bars, {busy} of them above zero, the highest {} {unit} at {}",
        bars.len(),
        highest.0,
        highest.1
    )
}

fn text(out: &mut String, x: u64, y: u64, anchor: &str, content: &str) {
    out.push_str(&format!(
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(content)
    ));
}
