//! Just enough Markdown to read a knowledge base: where sections begin, and what a line says without its marks.

/// The text from each heading to the next, as plain lines; nothing is empty.
pub(crate) fn sections(markdown: &str) -> Vec<Vec<String>> {
    let mut sections: Vec<Vec<String>> = vec![Vec::new()];
    for line in markdown.lines() {
        if is_heading(line) {
            sections.push(Vec::new());
        }
        if let (Some(section), Some(line)) = (sections.last_mut(), plain(line)) {
            section.push(line);
        }
    }
    // A heading right above another one says nothing by itself.
    sections.retain(|lines| lines.iter().any(|line| !line.ends_with(':')));
    sections
}

fn is_heading(line: &str) -> bool {
    line.starts_with('#')
}

/// A line without emphasis, code marks, quotes and tables; `None` where nothing is left to read. A heading ends
/// in a colon, a list keeps `- ` or `1. `.
fn plain(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches("> ");
    if line.starts_with("```") {
        return None;
    }
    let text = line.trim_start_matches('#').replace("**", "").replace('`', "");
    let text = match text.trim().strip_prefix('|') {
        Some(row) => row.trim_end_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" | "),
        None => text.trim().to_owned(),
    };
    if !text.chars().any(char::is_alphanumeric) {
        return None;
    }
    Some(if is_heading(line) {
        format!("{}:", text.trim_end_matches(':'))
    } else if let Some(item) = text.strip_prefix("* ").or_else(|| text.strip_prefix("• ")) {
        format!("- {item}")
    } else if let Some((number, item)) =
        text.split_once(") ").filter(|(number, _)| number.parse::<u32>().is_ok())
    {
        format!("{number}. {item}")
    } else {
        text
    })
}

/// What an item of a list says, and its number in a numbered list; `None` for any other line.
pub(crate) fn item(line: &str) -> Option<(&str, Option<u32>)> {
    if let Some(item) = line.strip_prefix("- ") {
        return Some((item, None));
    }
    let (number, item) = line.split_once(". ")?;
    Some((item, Some(number.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_goes_from_one_heading_to_the_next() {
        let markdown = "Intro.\n\n# Title\n## Steps\n\n1) Use `close_7392`.\n* **Tell** the customer\n### Fees\n|tier|fee|\n|---|---|\n| Gold | $5 |";
        assert_eq!(
            sections(markdown),
            [
                vec!["Intro."],
                vec!["Steps:", "1. Use close_7392.", "- Tell the customer"],
                vec!["Fees:", "tier | fee", "Gold | $5"],
            ]
        );
    }

    #[test]
    fn items_of_both_sorts_of_lists_are_told_apart() {
        assert_eq!(item("1. Verify"), Some(("Verify", Some(1))));
        assert_eq!(item("- Verify"), Some(("Verify", None)));
        assert_eq!(item("See form no. 4. Verify"), None);
    }
}
