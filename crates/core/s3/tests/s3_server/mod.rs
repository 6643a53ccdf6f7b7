//! A real S3 server in this process: `s3s-fs`, which checks signatures.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::host::SingleDomain;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::sync::Notify;

const KEY: &str = "AKIDTEST";
const SECRET: &str = "not-a-secret";

/// A server for the bucket `films`, which stops with the runtime.
pub(crate) struct S3Server {
    endpoint: String,
    deaf: Arc<AtomicBool>,
    closing: Arc<Notify>,
    turned_away: Arc<Notify>,
}

impl S3Server {
    /// Serves `folder`.
    pub(crate) async fn start(folder: &Path) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::start_on(listener, folder).await
    }

    /// Like [`Self::start`], with a listener from the caller.
    pub(crate) async fn start_on(listener: std::net::TcpListener, folder: &Path) -> Self {
        Self::start_at(listener, folder, None).await
    }

    /// Like [`Self::start_on`]. Buckets are subdomains of `domain`, if given.
    pub(crate) async fn start_at(
        listener: std::net::TcpListener,
        folder: &Path,
        domain: Option<&str>,
    ) -> Self {
        std::fs::create_dir_all(folder.join("films")).expect("a folder for the bucket");
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder).expect("a folder"));
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        if let Some(domain) = domain {
            service.set_host(SingleDomain::new(domain).expect("a domain"));
        }
        let service = service.build().into_shared();
        listener.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(listener).expect("a listener");
        let endpoint = format!("http://{}", listener.local_addr().expect("its own address"));
        let deaf = Arc::new(AtomicBool::new(false));
        let closing = Arc::new(Notify::new());
        let turned_away = Arc::new(Notify::new());
        let (is_deaf, close, turning_away) = (deaf.clone(), closing.clone(), turned_away.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if is_deaf.load(Ordering::Relaxed) {
                    turning_away.notify_waiters();
                    continue; // the connection closes
                }
                let (service, close) = (service.clone(), close.clone());
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    tokio::select! {
                        _ = builder.serve_connection(TokioIo::new(socket), service) => {}
                        () = close.notified() => {}
                    }
                });
            }
        });
        Self { endpoint, deaf, closing, turned_away }
    }

    /// Waits until the next connection is closed because the server is deaf.
    pub(crate) async fn turned_away(&self) {
        self.turned_away.notified().await;
    }

    /// Closes all connections, and all new ones at once from now on; or accepts them again.
    pub(crate) fn be_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::Relaxed);
        self.closing.notify_waiters();
    }

    /// The variables that point to this server.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let value = match name {
            "AWS_ENDPOINT_URL" => &self.endpoint,
            "AWS_ACCESS_KEY_ID" => KEY,
            "AWS_SECRET_ACCESS_KEY" => SECRET,
            _ => return None,
        };
        Some(value.to_owned())
    }
}
