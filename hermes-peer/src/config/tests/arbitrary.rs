//! Whatever the text is: an answer, with a place in the text, and no panic.

use proptest::prelude::*;

use super::*;

const EXAMPLE: &str = include_str!("../../../../peers.example.yaml");
const SMALL: &str = "node_id: a-01\nlisten: 127.0.0.1:7501\npeers:\n- { node_id: b, endpoint: '[::1]:7502' }\n\
                     auth: { mode: token, token: ${T} }\nsession: { timeout: 1h30m }\n\
                     policy: [{ allow: call, capabilities: [a.b], from: &f ['agent://a/b/*'] }]\n";

fn assert_answered(bytes: &[u8]) {
    let around = crate::config::section::Surroundings {
        file: "f.yaml",
        base: Path::new("/nonexistent"),
        env: &|_| Some("0123456789abcdef".to_owned()),
    };
    if let Err(error) = crate::config::file::parse(bytes, around) {
        let lines = bytes.split(|&b| b == b'\n' || b == b'\r').count().max(1);
        for finding in error.findings() {
            assert!((1..=lines + 1).contains(&finding.at.line), "{finding:?}");
            assert!(!finding.message.is_empty() && !finding.to_string().contains('\n'), "{finding:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_random_text_is_answered(text in "\\PC{0,200}") {
        assert_answered(text.as_bytes());
    }

    #[test]
    fn random_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        assert_answered(&bytes);
    }

    #[test]
    fn a_text_of_yaml_marks_is_answered(text in "[-:{}\\[\\],&*!|>'\"%@`#?a$ \t\n]{0,120}") {
        assert_answered(text.as_bytes());
    }

    #[test]
    fn a_flipped_file_is_answered(at in 0..SMALL.len(), byte in any::<u8>(), more in 0..EXAMPLE.len()) {
        let mut bytes = SMALL.as_bytes().to_vec();
        bytes[at] = byte;
        assert_answered(&bytes);
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        bytes[more] = byte;
        assert_answered(&bytes);
    }

    #[test]
    fn any_value_of_a_duration_is_answered(text in "[0-9.smhdMS -]{0,30}") {
        let bounds = Duration::ZERO..=crate::config::value::MAX_DURATION;
        if let Ok(value) = crate::config::value::duration(&text, &bounds) {
            assert!(value > Duration::ZERO && value <= *bounds.end());
        }
    }

    #[test]
    fn any_endpoint_is_answered(text in "[0-9a-f:.%/\\[\\]@ ]{0,30}") {
        let _answer = crate::config::address::check_endpoint(&text);
        let _answer = crate::config::address::listen(&text);
        let _answer = crate::config::address::advertised(&text, Config::default().listen);
    }
}

#[test]
fn a_cut_file_is_answered() {
    // FC-005
    for end in 0..SMALL.len() {
        assert_answered(&SMALL.as_bytes()[..end]);
    }
}
