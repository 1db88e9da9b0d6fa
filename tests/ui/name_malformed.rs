use hermes_peer::{Failure, capability};

/// Echoes.
#[capability("echo")]
async fn one_word(text: String) -> Result<String, Failure> {
    Ok(text)
}

/// Echoes.
#[capability("Text-Tools/Echo")]
async fn other_letters(text: String) -> Result<String, Failure> {
    Ok(text)
}

fn main() {}
