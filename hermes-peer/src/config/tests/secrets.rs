//! Tokens: from the environment, from files, and never in a message.

use hermes_peer_proto::security::Token;

use super::*;

const TOKEN: &str = "abc:def=ghi/+jkl ${X} {y} $z";

/// Whether the file has exactly these tokens, in this order.
fn has_tokens(config: &Config, expected: &[&str]) -> bool {
    match &config.auth {
        Some(AuthConfig::Token { tokens }) => {
            tokens.ids().eq(expected.iter().map(|token| Token::parse(token.as_bytes()).unwrap().id()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_variable_that_gives_no_secret_is_refused_by_its_name() {
    // FC-004
    let folder = folder();
    for (value, env, piece) in [
        ("${HERMES_FIELD_TOKEN}", None, "`HERMES_FIELD_TOKEN` is not set"),
        ("${HERMES_FIELD_TOKEN}", Some(""), "`HERMES_FIELD_TOKEN` is empty"),
        ("${HERMES_FIELD_TOKEN}", Some(" \t "), "`HERMES_FIELD_TOKEN` is empty"),
        ("${HERMES_FIELD_TOKEN", Some(TOKEN), "`${HERMES_FIELD_TOKEN` is not closed"),
        ("'${HERMES_FIELD_TOKEN'", Some(TOKEN), "`${HERMES_FIELD_TOKEN` is not closed"),
        ("'${HERMES_FIELD_TOKEN}x'", Some(TOKEN), "`${HERMES_FIELD_TOKEN` is not closed"),
        ("'x${HERMES_FIELD_TOKEN}'", Some(TOKEN), "the whole value"),
        ("$HERMES_FIELD_TOKEN", Some(TOKEN), "the whole value"),
        ("${}", Some(TOKEN), "not followed by a variable's name"),
        (
            "${HERMES_FIELD_TOKEN}",
            Some("short"),
            "the environment variable `HERMES_FIELD_TOKEN` is refused: the token has 5 bytes",
        ),
    ] {
        for (text, place) in [
            (format!("auth: {{ mode: token, token: {value} }}"), "f.yaml:1:29: auth.token: "),
            (format!("auth:\n  mode: token\n  token: {value}\n"), "f.yaml:3:10: auth.token: "),
            (format!("auth:\n  mode: token\n  tokens:\n  - {value}\n"), "f.yaml:4:5: auth.tokens[0]: "),
        ] {
            let env: Vec<_> = env.map(|value| ("HERMES_FIELD_TOKEN", value)).into_iter().collect();
            let printed = parse_in(&text, folder.path(), &env).unwrap_err().to_string();
            assert!(printed.contains(place) && printed.contains(piece), "{text}\n{printed}");
        }
    }
}

#[test]
fn a_variable_is_taken_as_it_is_and_never_expanded_again() {
    // FC-004
    let folder = folder();
    for text in [
        "auth: { mode: token, token: ${T} }",
        "auth: { mode: token, token: \"${T}\" }",
        "auth:\n  mode: token\n  token: ${T}\n",
    ] {
        let config = parse_in(text, folder.path(), &[("T", TOKEN), ("X", "never")]).unwrap();
        assert!(has_tokens(&config, &[TOKEN]));
        assert_eq!(config.warnings(), []);
    }
}

#[test]
fn other_values_come_from_the_environment_too() {
    let folder = folder();
    let text = "node_id: ${HOST}\npeers: [{ node_id: b, endpoint: ${B} }]";
    let config = parse_in(text, folder.path(), &[("HOST", "a-01"), ("B", "b:1")]).unwrap();
    assert_eq!(config.node_id.unwrap().as_ref(), "a-01");
    assert_eq!(config.peers[0].endpoint, "b:1");
    let error = parse_in(text, folder.path(), &[("HOST", "Wrong!"), ("B", "b:1")]).unwrap_err().to_string();
    assert!(error.contains("the value of the environment variable `HOST` is no node id"), "{error}");
    assert!(!error.contains("Wrong!"), "{error}");
}

#[test]
fn a_token_file_ends_in_one_line_end_at_most() {
    // FC-026
    let folder = folder();
    let path = folder.path().join("token");
    let read = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        restrict(&path);
        parse_in("auth: { mode: token, token_file: token }", folder.path(), &[])
    };
    let token = "0123456789abcdef";
    for content in
        ["0123456789abcdef", "0123456789abcdef\n", "0123456789abcdef\r\n", "\u{feff}0123456789abcdef\n"]
    {
        let config = read(content.as_bytes()).unwrap();
        assert!(has_tokens(&config, &[token]), "{content:?}");
        assert_eq!(config.warnings(), []);
    }
    let longest = "k".repeat(4096);
    let config = read(format!("\u{feff}{longest}\r\n").as_bytes()).unwrap();
    assert!(has_tokens(&config, &[&longest]));
    for (content, piece) in [
        (&b""[..], "the token is empty"),
        (b"\n", "the token is empty"),
        (b"abc\n", "the token has 3 bytes, at least 16"),
        (b" 0123456789abcdef", "a blank at an end"),
        (b"0123456789abcdef\n\n", "a blank at an end"),
        (b"0123456789\nabcdef", "control character"),
        (&[b'k'; 4097], "at most 4096"),
        (&[b'k'; 65536], "at most 4096"),
        (b"0123456789abcdef\xff", "is no UTF-8"),
    ] {
        let printed = read(content).unwrap_err().to_string();
        assert!(printed.contains("f.yaml:1:34: auth.token_file: ") && printed.contains(piece), "{printed}");
    }
}

#[test]
fn several_tokens_are_valid_at_once() {
    // FC-026
    let folder = folder();
    for name in ["one", "two"] {
        fs::write(folder.path().join(name), format!("{name}-0123456789abcdef\n")).unwrap();
        restrict(&folder.path().join(name));
    }
    let text = "auth: { mode: token, token: ${A}, tokens: [${B}], token_files: [one, two] }";
    let env = [("A", "a-0123456789abcdef"), ("B", "b-0123456789abcdef")];
    let config = parse_in(text, folder.path(), &env).unwrap();
    let expected =
        ["a-0123456789abcdef", "b-0123456789abcdef", "one-0123456789abcdef", "two-0123456789abcdef"];
    assert!(has_tokens(&config, &expected));
    let twice = "auth: { mode: token, tokens: [0123456789abcdef, 0123456789abcdef] }";
    assert_refused(twice, &["f.yaml:1:7: auth: token", "is given twice"]);
    assert_refused("auth: { mode: token }", &["f.yaml:1:7: auth: there is no token"]);
    assert_refused("auth: { mode: token, tokens: [] }", &["auth.tokens: the list is empty"]);
    assert_refused("auth: { token: x }", &["auth: `mode` is missing"]);
}

#[test]
fn a_token_in_the_file_and_files_that_others_read_are_warned_about() {
    let folder = folder();
    let config = parse_in("auth: { mode: token, token: 0123456789abcdef }", folder.path(), &[]).unwrap();
    assert!(config.warnings()[0].message.contains("stands in this file"));
    #[cfg(unix)]
    {
        let key = folder.path().join("key.pem");
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let text = "auth: { mode: mtls, ca: ca.pem, cert: cert.pem, key: key.pem }";
        let config = parse_in(text, folder.path(), &[]).unwrap();
        assert!(config.warnings()[0].to_string().contains("mode 0644"), "{:?}", config.warnings());
    }
}

#[test]
fn certificates_have_to_be_there() {
    let text = "auth:\n  mode: mtls\n  ca: gone.pem\n  cert: cert.pem\n";
    assert_refused(
        text,
        &["f.yaml:3:7: auth.ca: the value is a file that cannot be read", "`key` is missing"],
    );
}

#[test]
fn a_secret_in_the_place_of_a_key_is_not_quoted() {
    // FC-079
    let secret = "q7w8e9r0t1y2u3i4";
    for text in [
        format!("auth: {{ mode: token, {secret} }}"),
        format!("auth:\n  {secret}: token\n"),
        format!("log: {{ '{secret} {secret}': x }}"),
    ] {
        let printed = refused(&text);
        assert!(printed.contains("unknown key") && !printed.contains("q7w8"), "{printed}");
    }
}

#[test]
fn no_piece_of_a_secret_is_ever_printed() {
    // FC-079
    let secret = "abc:def=ghi/+jkl";
    let folder = folder();
    let env = [("T", secret)];
    for text in [
        format!("auth: {{ mode: token, token: {secret} }}"),
        "auth: { mode: token, token: ${T} }\nlog: { level: loud }".to_owned(),
        format!("auth: {{ mode: token, tokn: {secret} }}"),
        format!("auth: {{ mode: token, token:{secret} }}"),
        format!("auth: {{ mode: {secret} }}"),
        format!("auth: {secret}"),
        format!("auth: [{secret}]"),
        format!("auth:\n  mode: token\n  token: {secret}\n x: y\n"),
        format!("auth:\n  mode: token\n  token: '{secret}\n"),
        format!("auth:\n  mode: token\n  token: ${{{secret}}}\n"),
        format!("auth: {{ mode: token, token_file: {secret} }}"),
        format!("auth: {{ mode: mtls, ca: {secret}, cert: cert.pem, key: key.pem }}"),
        format!("auth: {{ mode: token, tokens: {secret} }}"),
        format!("auth: {{ mode: token, {secret} }}"),
        "auth: { mode: token, def=ghi/+jkl: x }".to_owned(),
        format!("log: {{ token: {secret} }}"),
        format!("token: {secret}"),
        "listen: ${T}".to_owned(),
    ] {
        let printed = match parse_in(&text, folder.path(), &env) {
            Ok(config) => format!("{config:?} {:?} {:#?}", config.warnings(), config.auth),
            Err(error) => format!("{error} {error:?} {error:#?}"),
        };
        for start in 0..=secret.len() - 4 {
            let piece = &secret[start..start + 4];
            assert!(!printed.contains(piece), "{text}\nprints {piece}: {printed}");
        }
    }
}
