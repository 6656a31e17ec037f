//! The real clients do what we say of them: which failures each of them repeats, without a
//! governor. (Under the governor they are tested elsewhere.)

use std::thread;
use std::time::Duration;

use governor_tests::lab::Lab;
use governor_tests::nft::Refusal;
use governor_tests::process::Process;
use governor_tests::real_clients::{End, Ended, RealClient, Targets, Work};
use governor_tests::server::Behaviour;
use governor_tests::server::faults::{Fault, Plan};
use governor_tests::server::faulty::FaultyServer;
use governor_tests::server::log::Log;

const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(90);

/// Operations of each kind: healthy, then failing at the first try.
const EACH: u32 = 3;

/// Some know their answers before they fail: a status, a reset, silence. Others repeat nothing.
fn repeats(client: RealClient, fault: Fault) -> bool {
    match (client, fault) {
        // Both have no retries of their own but for a connection that ends under a request.
        (RealClient::Ruby | RealClient::JavaUrlConnection, Fault::Status(_)) => false,
        (RealClient::JavaUrlConnection, Fault::Hang) => false,
        // A timeout of the headers is no error that its RetryAgent repeats.
        (RealClient::Undici, Fault::Hang) => false,
        _ => true,
    }
}

fn each<T: Send>(of: &[RealClient], test: impl Fn(RealClient) -> T + Sync) {
    let test = &test;
    let ended: Vec<(RealClient, bool)> = thread::scope(|scope| {
        let running: Vec<_> = of
            .iter()
            .map(|client| (*client, scope.spawn(move || test(*client))))
            .collect();
        let ended = |(client, thread): (_, thread::ScopedJoinHandle<'_, T>)| {
            (client, thread.join().is_ok())
        };
        running.into_iter().map(ended).collect()
    });
    assert!(ended.iter().all(|(_, well)| *well), "ended well: {ended:?}");
}

#[test]
fn each_client_repeats_the_failures_that_we_say() {
    const FAULTS: [Fault; 3] = [Fault::Status(503), Fault::Reset, Fault::Hang];
    each(&RealClient::ALL, |client| {
        let ranges: Vec<_> = (1..=3).map(|kind| kind * EACH..(kind + 1) * EACH).collect();
        let plan = FAULTS
            .iter()
            .zip(&ranges)
            .fold(Plan::healthy(), |plan, (fault, range)| {
                plan.failing_first(range.clone(), 1, *fault)
            });
        let work = Work {
            operations: 4 * EACH,
            targets: Targets::Distinct,
            retries: 2,
            timeout: Duration::from_millis(500),
            pause: Duration::from_millis(20),
        };
        let (ended, log) = ungoverned(client, &work, plan);
        assert_eq!(ended.len(), work.operations as usize, "{ended:?}");
        println!("{client:?}: {} connections", log.connections);
        for (fault, range) in FAULTS.iter().zip(&ranges) {
            let repeats = if repeats(client, *fault) { EACH } else { 0 };
            let seen = log.of(range.clone()).repeats();
            assert_eq!(
                seen, repeats as usize,
                "{client:?} after {fault:?}: {ended:?}"
            );
        }
        assert_eq!(log.of(0..EACH).arrivals.len(), EACH as usize);
    });
}

fn ungoverned(client: RealClient, work: &Work, plan: Plan) -> (Vec<Ended>, Log) {
    let lab = Lab::new();
    let server = FaultyServer::start(lab.netns(), PORT, plan);
    let command = client.command(&format!("http://127.0.0.1:{PORT}"), work);
    let finished = lab.run(command, LIMIT).expect_success();
    println!("{}", finished.stderr);
    (RealClient::ended(&finished.stdout), server.log())
}

#[test]
fn a_client_that_is_refused_tries_again_until_it_is_answered() {
    each(&RealClient::OF_EACH_LANGUAGE, |client| {
        let lab = Lab::new();
        let server = lab.http_server(PORT, Behaviour::Refuse);
        let syns = lab.count_syns(PORT);
        let command = client.command(&format!("http://127.0.0.1:{PORT}"), &Work::once(8));
        let mut process = Process::start(command, &lab.place());
        // Wakes the server only after a real refusal: a slow start of the client must not pass as a retry.
        while syns.count() == 0 && process.is_running() {
            thread::sleep(Duration::from_millis(20));
        }
        server.set(Behaviour::Answer);
        process.finish(LIMIT).expect_success();
        assert!(syns.count() >= 2, "no retry was seen");
        assert_eq!(server.counts().answers.count(), 1);
    });
}

#[test]
fn a_client_of_another_protocol_connects_again_until_it_is_answered() {
    let clients = RealClient::OPAQUE.map(|(client, _)| client);
    each(&clients, |client| {
        let lab = Lab::new();
        let known = RealClient::OPAQUE.into_iter().find(|(it, _)| *it == client);
        let (_, server) = known.expect("it is one of them");
        let server = server.start(&lab.place());
        let syns = lab.count_syns(server.port());
        let work = Work {
            operations: 1_000,
            targets: Targets::Distinct,
            retries: 2,
            timeout: Duration::from_secs(1),
            pause: Duration::from_millis(50),
        };
        let address = format!("127.0.0.1:{}", server.port());
        let running = client.start(&address, &work, &lab.place());
        while syns.count() == 0 {
            thread::sleep(Duration::from_millis(20));
        }
        // It has all the connections that it wants.
        thread::sleep(Duration::from_secs(1));
        let before = syns.count();
        let refusal = Refusal::of(lab.netns(), server.port());
        thread::sleep(Duration::from_secs(3));
        let refused = syns.count() - before;
        drop(refusal);
        thread::sleep(Duration::from_secs(4));
        let told = running.stop();
        assert!(refused >= 2, "{client:?}: {refused} connects while refused");
        let last = told.last().map(|it| &it.ended);
        assert!(
            last.is_some_and(|it| it.end == End::Well),
            "{client:?}: {last:?}"
        );
    });
}
