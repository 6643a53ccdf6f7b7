//! Kernel TLS: a socket whose data the kernel encrypts (Documentation/networking/tls.rst, linux/tls.h).
//!
//! There are two steps: [`Socket::attach_tls`] prepares the socket for keys, and [`Socket::seal_with`] gives it keys
//! for sending. From then on every send call takes plaintext application data; records of other types are sent with
//! [`Socket::send_record`]. Receiving does not change: records arrive sealed.

use crate::socket::Socket;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsRawFd;
use zeroize::Zeroizing;

/// The largest of the structures that carry keys.
const INFO_BYTES_MAX: usize = 56;

// The bytes assembled below have the length of the kernel's structures.
const _: () = assert!(size_of::<libc::tls12_crypto_info_aes_gcm_128>() == 4 + 8 + 16 + 4 + 8);
const _: () = assert!(size_of::<libc::tls12_crypto_info_aes_gcm_256>() == 4 + 8 + 32 + 4 + 8);
const _: () = assert!(size_of::<libc::tls12_crypto_info_chacha20_poly1305>() == 4 + 12 + 32 + 8);
const _: () = assert!(size_of::<libc::tls12_crypto_info_chacha20_poly1305>() == INFO_BYTES_MAX);

/// The ciphers that this server speaks, by their numbers in linux/tls.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Cipher {
    /// `TLS_CIPHER_AES_GCM_128`
    Aes128Gcm = libc::TLS_CIPHER_AES_GCM_128,
    /// `TLS_CIPHER_AES_GCM_256`
    Aes256Gcm = libc::TLS_CIPHER_AES_GCM_256,
    /// `TLS_CIPHER_CHACHA20_POLY1305`
    ChaCha20Poly1305 = libc::TLS_CIPHER_CHACHA20_POLY1305,
}

/// Keys for sending, in the kernel's format.
#[derive(Clone, Copy)]
pub struct KernelTlsKeys<'a> {
    /// Set for TLS 1.3; else TLS 1.2.
    pub is_tls13: bool,
    /// The cipher.
    pub cipher: Cipher,
    /// 16 or 32 bytes.
    pub key: &'a [u8],
    /// 4 bytes; empty for ChaCha20-Poly1305.
    pub salt: &'a [u8],
    /// 8 bytes; 12 for ChaCha20-Poly1305.
    pub iv: &'a [u8],
    /// The next record's sequence number, big-endian.
    pub sequence: &'a [u8; 8],
}

impl KernelTlsKeys<'_> {
    /// `struct tls12_crypto_info_*`: version and cipher in native byte order, IV, key, salt, sequence number.
    fn info(&self) -> (Zeroizing<[u8; INFO_BYTES_MAX]>, usize) {
        let version = if self.is_tls13 { libc::TLS_1_3_VERSION } else { libc::TLS_1_2_VERSION };
        let (version, cipher) = (version.to_ne_bytes(), (self.cipher as u16).to_ne_bytes());
        let mut info = Zeroizing::new([0; INFO_BYTES_MAX]);
        let mut used = 0;
        for part in [&version[..], &cipher, self.iv, self.key, self.salt, self.sequence] {
            info[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
        (info, used)
    }
}

/// A control message that carries the type of a record, with both parts aligned.
#[repr(C)]
struct RecordType {
    header: libc::cmsghdr,
    record_type: u8,
}

impl RecordType {
    /// As `CMSG_LEN(1)`: the byte follows the header at once, since a header's size is a multiple of its alignment.
    const BYTES: usize = size_of::<libc::cmsghdr>() + 1;

    fn new(record_type: u8) -> Self {
        // SAFETY: all zeroes is a valid value of this plain structure of the C library.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_level = libc::SOL_TLS;
        header.cmsg_type = libc::TLS_SET_RECORD_TYPE;
        header.cmsg_len = Self::BYTES as _;
        Self { header, record_type }
    }
}

/// Checks whether this kernel has TLS, with a socket that is not connected: a kernel that has TLS refuses that with
/// `ENOTCONN`. The attempt loads the module `tls` if this process may do so (`CAP_NET_ADMIN`).
///
/// # Errors
/// `ENOENT` without TLS; `EPERM` and the like where a sandbox forbids the call.
pub fn probe() -> io::Result<()> {
    let kind = socket2::Type::STREAM;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, Some(socket2::Protocol::TCP))?;
    match set_upper_protocol(&socket) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(()),
        other => other,
    }
}

impl Socket {
    /// Prepares the socket for keys. Until it has any, it works as before.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no TLS, `ENOTCONN` if the viewer has gone.
    pub fn attach_tls(&self) -> io::Result<()> {
        set_upper_protocol(self.fd())
    }

    /// Gives the kernel keys for sending: everything sent from now on is sealed with them. Call it again after a key
    /// update, if the kernel supports that (Linux 6.14; others return `EBUSY`).
    ///
    /// # Errors
    /// `EINVAL`, `EOPNOTSUPP` or `ENOENT` for a version or a cipher that this kernel does not support.
    ///
    /// # Panics
    /// If a part of `keys` does not have the length that its cipher needs.
    pub fn seal_with(&self, keys: &KernelTlsKeys<'_>) -> io::Result<()> {
        let (info, used) = keys.info();
        let expected = if keys.cipher == Cipher::Aes128Gcm { 40 } else { INFO_BYTES_MAX };
        assert_eq!(used, expected, "the parts have the cipher's lengths");
        set_option(self.fd(), libc::SOL_TLS, libc::TLS_TX, &info[..used])
    }

    /// Lets a NIC that seals this connection read file bytes in place from now on (`TLS_TX_ZEROCOPY_RO`, Linux 5.19), also for retransmissions. The
    /// bytes must not change until they are acknowledged. Without such a NIC, nothing changes.
    ///
    /// # Errors
    /// `ENOPROTOOPT` on an older kernel.
    pub fn lend_pages(&self) -> io::Result<()> {
        /// linux/tls.h.
        const TLS_TX_ZEROCOPY_RO: i32 = 3;
        set_option(self.fd(), libc::SOL_TLS, TLS_TX_ZEROCOPY_RO, &1_i32.to_ne_bytes())
    }

    /// Sends one record of another type than application data, entirely or not at all. Returns whether the kernel took it.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_record(&self, record_type: u8, content: &[u8]) -> io::Result<bool> {
        let mut control = RecordType::new(record_type);
        let mut part =
            libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
        // SAFETY: all zeroes is a valid value of this plain structure of the C library.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<RecordType>() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: everything that `message` points to lives until the call is over, and the kernel only reads it.
        let sent = unsafe { libc::sendmsg(self.fd().as_raw_fd(), &raw const message, flags) };
        match usize::try_from(sent) {
            Ok(bytes) => Ok(bytes == content.len()),
            Err(_) => match Errno::from_io_error(&io::Error::last_os_error()) {
                Some(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(false),
                Some(error) => Err(error.into()),
                None => Err(io::ErrorKind::Other.into()),
            },
        }
    }
}

fn set_upper_protocol(fd: &impl AsRawFd) -> io::Result<()> {
    set_option(fd, libc::SOL_TCP, libc::TCP_ULP, b"tls\0")
}

fn set_option(fd: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `value` before the call returns, and keeps no pointer.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_laid_out_as_in_linux_tls_h() {
        let keys = KernelTlsKeys {
            is_tls13: true,
            cipher: Cipher::Aes128Gcm,
            key: &[1; 16],
            salt: &[2; 4],
            iv: &[3; 8],
            sequence: &[4; 8],
        };
        let (info, used) = keys.info();
        let (version, cipher) = (0x0304u16.to_ne_bytes(), 51u16.to_ne_bytes());
        let parts = [&version[..], &cipher, &[3; 8], &[1; 16], &[2; 4], &[4; 8]];
        assert_eq!(info[..used], parts.concat());
        let chacha = KernelTlsKeys {
            cipher: Cipher::ChaCha20Poly1305,
            key: &[1; 32],
            salt: &[],
            iv: &[3; 12],
            ..keys
        };
        assert_eq!(chacha.info().1, INFO_BYTES_MAX);
    }

    /// A kernel with TLS has a file of counters for it.
    #[test]
    fn a_kernel_without_tls_is_told_from_one_that_has_it() {
        let probed = probe().map_err(|error| error.raw_os_error());
        let is_there = std::path::Path::new("/proc/net/tls_stat").exists();
        assert_eq!(probed, if is_there { Ok(()) } else { Err(Some(libc::ENOENT)) });
    }
}
