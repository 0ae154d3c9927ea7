//! Tests with servers so far away that a short lease expires before its grant arrives.

mod support;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use steadlock::{Client, Error, ErrorKind, Lock};
use support::Redis;
use support::proxy::Proxy;

const DELAY_EACH_WAY: Duration = Duration::from_millis(50);
const SHORT: Duration = Duration::from_millis(100);
/// The shortest lease that a client renews, and a delay that makes an answer take longer than that.
const SHORTEST_RENEWED: Duration = Duration::from_millis(300);
const LONG_DELAY_EACH_WAY: Duration = Duration::from_millis(200);
/// No wait may take longer than this, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

async fn refused(lock: &Lock) -> Error {
    let acquiring = tokio::time::timeout(LIMIT, lock.acquire());
    acquiring.await.expect("the wait ends").map(drop).unwrap_err()
}

fn check_advice(refused: &Error) {
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(refused.message().contains("the lease must be longer than"), "{refused}");
}

/// Locks of several kinds, all with a lease that is too short.
fn locks(client: &Client) -> [Lock; 4] {
    let [plain, fair] = [client.lock("lock"), client.fair_lock("fair")];
    [plain, fair, client.mutex("mutex"), client.read_write_lock("both").write].map(|lock| lock.lease(SHORT))
}

#[tokio::test]
async fn a_lease_shorter_than_the_round_trip_is_refused_with_a_reason() {
    let server = Redis::start();
    let proxy = Proxy::with_delay(server.port, DELAY_EACH_WAY);
    let client = Client::connect(proxy.url()).await.unwrap();
    for lock in locks(&client) {
        check_advice(&refused(&lock).await);
        // A single attempt fails with the same error. A wait with a limit does too, once the limit is over.
        let tried = tokio::time::timeout(LIMIT, lock.try_acquire())
            .await
            .expect("the wait ends");
        check_advice(&tried.map(drop).unwrap_err());
        let (wait, start) = (Duration::from_secs(1), Instant::now());
        check_advice(&refused(&lock.clone().wait(wait)).await);
        assert!(start.elapsed() >= wait);
    }
    // A longer lease works.
    let lease = client
        .lock("lock")
        .lease(Duration::from_secs(5))
        .acquire()
        .await
        .unwrap();
    lease.release().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn an_auto_renewed_lease_that_is_too_short_is_refused_with_the_same_reason() {
    let server = Redis::start();
    let proxy = Proxy::with_delay(server.port, LONG_DELAY_EACH_WAY);
    let short = Client::builder().url(proxy.url()).lease(SHORTEST_RENEWED);
    let client = short.connect().await.unwrap();
    let renewed_by_default = client.lock("client");
    let renewed_by_lock = client.lock("lock").lease(SHORTEST_RENEWED).renewed();
    let refusals = [renewed_by_default, renewed_by_lock].map(|lock| async move {
        check_advice(&refused(&lock).await);
        check_advice(&refused(&lock.clone().wait(Duration::from_secs(2))).await);
    });
    join_all(refusals).await;
    // A longer lease stays valid beyond its own length, because it is renewed.
    let long = Duration::from_secs(6);
    let lease = client.lock("lock").lease(long).renewed().acquire().await.unwrap();
    tokio::time::sleep(long + Duration::from_secs(1)).await;
    assert!(lease.is_valid());
    lease.release().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn a_majority_of_distant_primaries_needs_a_longer_lease() {
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start()).collect();
    let proxies: Vec<Proxy> = servers
        .iter()
        .map(|server| Proxy::with_delay(server.port, DELAY_EACH_WAY))
        .collect();
    let urls = proxies.iter().map(Proxy::url);
    let client = Client::builder().primaries(urls).connect().await.unwrap();
    check_advice(&refused(&client.lock("a").lease(SHORT)).await);
    let lease = client.lock("a").lease(Duration::from_secs(5)).acquire().await.unwrap();
    lease.release().await.unwrap();
    client.close().await;
}
