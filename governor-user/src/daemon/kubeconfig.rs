//! Where the API server is, as the kubelet of this node has it. Only the addresses are read: what
//! else is in a kubeconfig is a credential, and never kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hyper::Uri;

use crate::policy::yaml::{Node, Value, read};

/// Where kubelets have it: kubeadm; EKS, GKE and AKS; k3s; RKE2; MicroK8s.
const USUAL: [&str; 5] = [
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/snap/microk8s/current/credentials/kubelet.config",
];

/// Host and port of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// A name, or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What one file says.
#[derive(Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// Which.
    pub path: PathBuf,
    /// The servers of its clusters, or why there are none.
    pub servers: Result<Vec<Server>, String>,
}

/// The kubeconfig that is named, or those of this node's kubelet. Where none is named, one that is
/// not there says nothing.
pub fn kubeconfigs(named: Option<&Path>) -> Vec<Kubeconfig> {
    let (paths, wanted): (Vec<PathBuf>, bool) = match named {
        Some(path) => (vec![path.to_owned()], true),
        None => (USUAL.iter().map(PathBuf::from).collect(), false),
    };
    let look = |path: PathBuf| match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted => None,
        text => Some(Kubeconfig {
            servers: text
                .map_err(|error| error.kind().to_string())
                .and_then(|text| servers(&text)),
            path,
        }),
    };
    paths.into_iter().filter_map(look).collect()
}

/// The servers of a kubeconfig's clusters. A kubelet's has one.
fn servers(text: &str) -> Result<Vec<Server>, String> {
    let documents = read(text).documents;
    let clusters = documents
        .iter()
        .filter_map(|document| at(document, "clusters"));
    let entries = clusters.flat_map(|clusters| match &clusters.value {
        Value::List(entries) => entries.as_slice(),
        _ => &[],
    });
    let urls = entries.filter_map(|entry| text_of(at(at(entry, "cluster")?, "server")?));
    let found = urls.map(server).collect::<Result<Vec<_>, _>>()?;
    match found.is_empty() {
        true => Err("it has no clusters[].cluster.server".to_owned()),
        false => Ok(found),
    }
}

/// `https://10.0.0.1:6443`, `https://[fd00::1]`, `api.internal:6443`.
fn server(url: &str) -> Result<Server, String> {
    let no_server = || format!("{url:?} is no server: https://HOST:PORT is wanted");
    let uri: Uri = url.parse().map_err(|_| no_server())?;
    let host = uri.host().filter(|host| !host.is_empty());
    let host = host.ok_or_else(no_server)?;
    let usual = match uri.scheme_str() {
        Some("http") => 80,
        _ => 443,
    };
    Ok(Server {
        host: host
            .trim_matches(['[', ']'])
            .trim_end_matches('.')
            .to_ascii_lowercase(),
        port: uri.port_u16().unwrap_or(usual),
    })
}

fn at<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key == key)?;
    Some(&entry.value)
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(&text.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubeadm writes it.
    const KUBEADM: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTg==
    server: https://10.0.0.1:6443
  name: default-cluster
contexts:
- context: {cluster: default-cluster, namespace: default, user: default-auth}
  name: default-context
current-context: default-context
kind: Config
preferences: {}
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
";

    fn servers_of(url: &str) -> Result<Vec<Server>, String> {
        servers(&KUBEADM.replace("https://10.0.0.1:6443", url))
    }

    #[test]
    fn the_server_is_found_in_what_kubeadm_writes() {
        for (url, host, port) in [
            ("https://10.0.0.1:6443", "10.0.0.1", 6443),
            ("https://[fd00::1]", "fd00::1", 443),
            (
                "https://API.internal./k8s/clusters/c-1",
                "api.internal",
                443,
            ),
            ("http://127.0.0.1", "127.0.0.1", 80),
            ("api.internal:6443", "api.internal", 6443),
        ] {
            let host = host.to_owned();
            assert_eq!(servers_of(url), Ok(vec![Server { host, port }]), "{url}");
        }
        let json = r#"{"clusters":[{"cluster":{"server":"https://10.0.0.1:6443"}}]}"#;
        assert_eq!(servers(json), servers(KUBEADM));
    }

    #[test]
    fn what_names_no_server_says_so() {
        for text in [
            "",
            "clusters: []",
            "clusters: 3",
            "- a\n- [",
            "{clusters: [{cluster: 1}]}",
        ] {
            let why = servers(text).unwrap_err();
            assert!(why.contains("no clusters"), "{text}: {why}");
        }
        for url in ["https://", "''", "/path", "https://a b"] {
            let why = servers_of(url).unwrap_err();
            assert!(why.contains("is no server"), "{url}: {why}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_told_only_where_it_was_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubelet.conf");
        let absent = kubeconfigs(Some(&path));
        assert_eq!(absent[0].servers, Err("entity not found".to_owned()));
        fs::write(&path, KUBEADM).unwrap();
        assert_eq!(kubeconfigs(Some(&path))[0].servers, servers(KUBEADM));
        assert!(kubeconfigs(None).iter().all(|one| one.path != path));
    }
}
