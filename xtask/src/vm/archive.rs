//! The machine's file system: an archive that the kernel unpacks into memory.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// The name of what comes last.
const END: &str = "TRAILER!!!";
/// Entries, and what is in them, begin at multiples of this.
const ALIGNMENT: usize = 4;

/// Packs files, each at its place below the root.
pub fn pack(archive: &Path, files: &[(PathBuf, PathBuf)]) -> Result<()> {
    let to_archive = || archive.display().to_string();
    let mut packed = BufWriter::new(File::create(archive).with_context(to_archive)?);
    let directories = files
        .iter()
        .flat_map(|(place, _)| place.ancestors().skip(1));
    // In this order a directory comes before what is in it.
    let directories: BTreeSet<_> = directories.filter(|it| *it != Path::new("")).collect();
    for directory in directories {
        entry(
            &mut packed,
            &directory.display().to_string(),
            DIRECTORY,
            &[],
        )
        .with_context(to_archive)?;
    }
    for (place, path) in files {
        let content = fs::read(path).with_context(|| path.display().to_string())?;
        entry(&mut packed, &place.display().to_string(), PROGRAM, &content)
            .with_context(to_archive)?;
    }
    entry(&mut packed, END, 0, &[]).with_context(to_archive)?;
    packed.flush().with_context(to_archive)
}

/// The format that cpio calls newc: 13 numbers, the name, the content. All is root's, of 1970.
fn entry(archive: &mut impl Write, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(io::Error::other)?;
    // With the NUL at its end.
    let name_length = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
    let (links, none) = (1, 0);
    let numbers = [
        none,
        mode,
        none,
        none,
        links,
        none,
        length,
        none,
        none,
        none,
        none,
        name_length,
        none,
    ];
    let numbers: String = numbers.iter().map(|it| format!("{it:08x}")).collect();
    for part in [format!("070701{numbers}{name}\0").as_bytes(), content] {
        archive.write_all(part)?;
        let gap = part.len().next_multiple_of(ALIGNMENT) - part.len();
        archive.write_all(&[0; ALIGNMENT][..gap])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_contents_begin_at_multiples_of_four() {
        let mut archive = Vec::new();
        for (name, content) in [("bin/ip", "three"), ("etc", "")] {
            entry(&mut archive, name, PROGRAM, content.as_bytes()).expect("memory takes it");
        }
        let header = |length, name_length| {
            format!(
                "070701{zero}000081ed{zero}{zero}00000001{zero}{length:08x}{zero}{zero}{zero}{zero}{name_length:08x}{zero}",
                zero = "00000000"
            )
        };
        let expected = format!(
            "{}bin/ip\0\0\0\0three\0\0\0{}etc\0\0\0",
            header(5, 7),
            header(0, 4)
        );
        assert_eq!(String::from_utf8_lossy(&archive), expected);
    }
}
