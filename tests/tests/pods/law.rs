//! Who calls whom is known at the node's side of the wires, and all pods share one budget.

use super::*;

#[test]
fn pods_are_told_apart_and_share_the_budget_of_a_service() {
    for family in Family::ALL {
        let cluster = Cluster::new();
        let pods = [cluster.pod(), cluster.pod()];
        let node = Node::new(&cluster.lab);
        let reserve = 5;
        let constraint =
            format!("retryConstraint: {{minRetryRate: {{count: {reserve}, interval: 1s}}}}");
        node.write_policy(
            "shop.yaml",
            &policy("Enforce", &format!("{BUDGET}, {constraint}")),
        );
        let daemon = node.start_daemon();
        // A budget of each pod's own would allow this twice: the reserve's ceiling binds.
        let load = storm(family.service(), 20, "200ms", Duration::from_secs(9));
        let storms = pods.each_ref().map(|pod| pod.storm(&load));
        thread::sleep(Duration::from_secs(5));
        cluster.server.set(failing(100));
        let truths = storms.map(|storm| Truth::of(&storm.finish(LIMIT)));
        println!("{family:?}: {truths:#?}");

        let all = truths[0].and(truths[1]);
        assert_eq!(all.reached(), cluster.server.log().arrivals.len() as u64);
        assert_eq!(all.denied_first, 0, "first tries are no retries");
        let allowance = all.well / 10 + reserve * 10;
        assert!(all.retries <= allowance, "{} of {allowance}", all.retries);
        for truth in truths {
            assert!(truth.retries > 10, "each pod has its share: {truth:?}");
            assert!(
                truth.denied > truth.retries,
                "a storm is refused: {truth:?}"
            );
        }

        let status = node.status();
        let shop = destination_of(&status, "shop");
        assert_eq!(Truth::told(shop), all, "{shop}");
        assert_eq!(shop["requests"]["unreached"], 0);
        assert_eq!(shop["requests"]["unread"], 0);
        assert_eq!(shop["workloads"].as_array().unwrap().len(), 2, "{shop}");
        let addresses = shop["addresses"].as_array().unwrap();
        assert_eq!(addresses, &[Value::from(family.service().to_string())]);
        for (pod, truth) in pods.iter().zip(truths) {
            let told = workload_of(shop, &pod.name());
            assert_eq!(number(&told["attempts"]), truth.reached(), "{told}");
            assert_eq!(number(&told["retries"]), truth.retries, "{told}");
            assert_eq!(number(&told["denied"]), truth.denied, "{told}");
            assert_eq!(Truth::measured(&node, "shop", &pod.name()), truth);
        }
        daemon.stop().expect_success();
    }
}

/// Where no policy names it a destination is what the caller names: the service, not the pod behind it.
#[test]
fn a_service_is_called_what_its_callers_call_it() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    let everything = "{apiVersion: governor.dev/v1alpha1, kind: RetryPolicy, metadata: {name: all}, spec: {mode: Enforce}}";
    node.write_policy("all.yaml", everything);
    let _daemon = node.start_daemon();
    for family in Family::ALL {
        let load = storm(family.service(), 2, "100ms", Duration::from_secs(1));
        let truth = Truth::of(&pod.storm(&load).finish(LIMIT));
        let status = node.status();
        let service = destination_of(&status, &family.service().to_string());
        assert_eq!(Truth::told(service), truth, "{service}");
        workload_of(service, &pod.name());
    }
    assert_eq!(node.status()["destinations"].as_array().unwrap().len(), 2);
}

#[test]
fn a_pod_that_comes_back_is_governed_on_its_new_wire() {
    let cluster = Cluster::new();
    let pod = cluster.pod();
    let node = Node::new(&cluster.lab);
    node.write_policy("shop.yaml", &policy("Enforce", ORDERS));
    let _daemon = node.start_daemon();
    let order = ["shed", "100", "--destination", "shop", "--for", "1m"];
    for family in Family::ALL {
        is_refused_by_order(&pod, family, &node, &order);
    }
    let old = pod.host_side.clone();
    drop(pod);
    for family in Family::ALL {
        let pod = cluster.pod();
        assert_ne!(pod.host_side, old);
        eventually("its new wire is governed", || {
            let hook = format!("hook_attached{{hook=\"act_ingress/{}\"}} 1", pod.host_side);
            node.get("/metrics").1.contains(&hook)
        });
        is_refused_by_order(&pod, family, &node, &order);
        let status = node.status();
        workload_of(destination_of(&status, "shop"), &pod.name());
    }
    let status = node.status();
    assert_eq!(destination_of(&status, "shop")["requests"]["unreached"], 0);
}

#[track_caller]
fn is_refused_by_order(pod: &Pod, family: Family, node: &Node<'_>, order: &[&str]) {
    let mut caller = pod.caller(family);
    caller.open("kept");
    assert_eq!(caller.exchange("kept").status, None);
    node.ctl(order).expect_success();
    let refused = caller.exchange("kept");
    assert_eq!(refused.status, Some(503), "{refused:?}");
    assert!(
        refused.latency() < Duration::from_millis(500),
        "{refused:?}"
    );
    node.ctl(["shed", "off"]).expect_success();
}
