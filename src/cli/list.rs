use tool_retries::scenario;

use super::Printer;

/// Names every scenario, by group.
pub(super) fn list(out: &mut Printer<'_>) {
    for group in scenario::groups() {
        out.line(group);
        for scenario in scenario::all().iter().filter(|one| one.group == group) {
            out.line(format_args!("  {:<34}{}", scenario.id, scenario.title));
        }
    }
}
