//! A link carries any number of calls, one after the other, whatever end they come to.

use hermes_peer::ErrorCode;
use hermes_peer::Failure;
use hermes_peer::Items;
use hermes_peer::capability;
use hermes_peer_tests::Lab;

/// More than a link has streams at once, twice over.
const CALLS: u32 = 2_500;

/// Gives back what it gets.
#[capability("demo.echo")]
async fn echo(input: u32) -> Result<u32, Failure> {
    Ok(input)
}

/// Fails.
#[capability("demo.fail")]
async fn fail() -> Result<(), Failure> {
    Err(Failure::new("as it should"))
}

/// Three items.
#[capability("demo.items")]
async fn items() -> Result<Items<u32>, Failure> {
    Ok(Items::from_iter(1..=3))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_does_not_run_out_of_streams() {
    let lab = Lab::new();
    let provider = lab.provider("provider").capability(echo).capability(fail).capability(items);
    let provider = provider.start().await.unwrap();
    let caller = lab.caller_of("caller", &provider).start().await.unwrap();
    for number in 0..CALLS {
        assert_eq!(caller.call::<u32>("demo.echo", &number).await.unwrap(), number);
        let error = caller.call::<()>("demo.fail", &()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::HandlerFailed);
        // One stream that is read to its end, and one that is given up.
        let mut stream = caller.call("demo.items", &()).stream::<u32>().await.unwrap();
        while number % 2 == 0
            && let Some(item) = stream.next().await
        {
            item.unwrap();
        }
    }
}
