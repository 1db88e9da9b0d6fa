//! Reads a streamed chat completion: server-sent events with pieces of JSON in them.

use std::collections::VecDeque;

use serde::Deserialize;

/// Longest line, in bytes; a token takes some hundred.
const LONGEST_LINE: usize = 1 << 20;

/// A completion as far as it has been read.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    /// The line that has begun.
    line: Vec<u8>,
    is_whole: bool,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    error: Option<Fault>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    content: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    message: String,
}

impl Completion {
    /// Takes bytes as they come and adds the pieces of text that they complete.
    ///
    /// # Errors
    ///
    /// When they are no completion, or say that the model failed.
    pub(crate) fn read(&mut self, bytes: &[u8], texts: &mut VecDeque<String>) -> Result<(), String> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() > LONGEST_LINE {
                return Err(format!("the model's answer has a line of more than {LONGEST_LINE} bytes"));
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.take(&line, texts)?;
            }
        }
        Ok(())
    }

    /// Whether the model has said that it is done: where it has not, the answer was cut off.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn take(&mut self, line: &[u8], texts: &mut VecDeque<String>) -> Result<(), String> {
        // Comments and other fields say nothing that is needed here.
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(()) };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.is_whole = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data)
            .map_err(|error| format!("the model's answer is no chat completion: {error}"))?;
        if let Some(fault) = chunk.error {
            return Err(format!("the model failed: {}", fault.message));
        }
        if let Some(choice) = chunk.choices.into_iter().next() {
            self.is_whole |= choice.finish_reason.is_some();
            texts.extend(choice.delta.content.filter(|text| !text.is_empty()));
        }
        Ok(())
    }
}

/// What an error's body says, in the form that most endpoints use.
pub(crate) fn error_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: Fault,
    }
    serde_json::from_slice::<Refusal>(body).ok().map(|refusal| refusal.error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\r\n\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"Block é\"}}]}\r\n\r\n\
        data:{\"choices\":[{\"delta\":{\"content\":\" it\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n";

    #[test]
    fn text_is_the_same_wherever_the_bytes_are_cut() {
        for cut in 0..STREAM.len() {
            let (mut completion, mut texts) = (Completion::default(), VecDeque::new());
            let (one, two) = STREAM.as_bytes().split_at(cut);
            completion.read(one, &mut texts).unwrap();
            assert!(cut == STREAM.len() || !completion.is_whole() || cut >= STREAM.len() - 1);
            completion.read(two, &mut texts).unwrap();
            assert_eq!(texts, ["Block é", " it"]);
            assert!(completion.is_whole());
        }
    }

    #[test]
    fn an_error_in_the_stream_is_an_error() {
        let (mut completion, mut texts) = (Completion::default(), VecDeque::new());
        let failed = completion.read(b"data: {\"error\":{\"message\":\"out of memory\"}}\n", &mut texts);
        assert_eq!(failed, Err("the model failed: out of memory".to_owned()));
        let html = completion.read(b"data: <html>\n", &mut texts).unwrap_err();
        assert!(html.contains("no chat completion"), "{html}");
        assert!(!completion.is_whole());
    }
}
