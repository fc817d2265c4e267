/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The run's folder \mcspin\<run id>\ on the volume that mcspin was loaded from. Boot processor only,
 * never while a firmware service is running. A volume that is missing, full or read-only costs the
 * files and nothing else.
 */
#include "firmware.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/run.h"

#define CONFIG_MAX    (16 << 10)
#define FOLDERS_MAX   999
#define RUNNING_BYTES 160 /* one length always: written in place, never torn by a growing file */

static EFI_FILE_HANDLE root, folder, log_handle, running;
static size_t log_written; /* of event_log() */
static int log_error; /* of the log; said once */
static char unfinished[160];

/* ASCII path to UTF-16 with backslashes. */
static void wide(CHAR16 *out, const char *text, size_t max)
{
	size_t n = 0;

	for (; *text && n < max - 1; text++)
		out[n++] = *text == '/' ? L'\\' : (CHAR16)(u8)*text;
	out[n] = 0;
}

static int error_of(EFI_STATUS status)
{
	if (status == EFI_VOLUME_FULL)
		return -ENOSPC;
	if (status == EFI_WRITE_PROTECTED || status == EFI_ACCESS_DENIED || status == EFI_UNSUPPORTED)
		return -EROFS;
	if (status == EFI_NOT_FOUND)
		return -ENOENT;
	return EFI_ERROR(status) ? -EIO : 0;
}

static EFI_FILE_HANDLE open(EFI_FILE_HANDLE from, const char *path, UINT64 mode, UINT64 attributes,
			    EFI_STATUS *status)
{
	EFI_FILE_HANDLE h = NULL;
	CHAR16 name[160];

	wide(name, path, ARRAY_SIZE(name));
	*status = FW(from->Open(from, &h, name, mode, attributes));
	return *status == EFI_SUCCESS ? h : NULL;
}

#define READ   EFI_FILE_MODE_READ
#define CREATE (EFI_FILE_MODE_READ | EFI_FILE_MODE_WRITE | EFI_FILE_MODE_CREATE)

static EFI_STATUS write_all(EFI_FILE_HANDLE h, const void *data, size_t len)
{
	UINTN n = len;
	EFI_STATUS status;

	status = FW(h->Write(h, &n, (void *)data));
	if (status == EFI_SUCCESS && n != len)
		status = EFI_VOLUME_FULL;
	if (status == EFI_SUCCESS)
		status = FW(h->Flush(h));
	return status;
}

static void close(EFI_FILE_HANDLE h)
{
	FW(h->Close(h));
}

static s64 read_all(EFI_FILE_HANDLE h, void *buf, size_t cap)
{
	UINTN n = cap;
	EFI_STATUS status;

	status = FW(h->Read(h, &n, buf));
	return status == EFI_SUCCESS ? (s64)n : error_of(status);
}

static void delete(EFI_FILE_HANDLE in, const char *name)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h = open(in, name, EFI_FILE_MODE_READ | EFI_FILE_MODE_WRITE, 0, &status);

	if (h)
		FW(h->Delete(h)); /* closes as well */
}

static EFI_STATUS rename(EFI_FILE_HANDLE h, const char *name)
{
	EFI_GUID guid = EFI_FILE_INFO_ID;
	union {
		EFI_FILE_INFO info;
		u8 room[sizeof(EFI_FILE_INFO) + 2 * 80];
	} u;
	UINTN size = sizeof(u);
	EFI_STATUS status = FW(h->GetInfo(h, &guid, &size, &u));

	if (status != EFI_SUCCESS)
		return status;
	wide(u.info.FileName, name, 80);
	return FW(h->SetInfo(h, &guid, sizeof(u), &u));
}

/* Written beside the old one and then renamed, so that a machine that dies in between keeps one of
 * the two whole. */
static int replace(EFI_FILE_HANDLE in, const char *name, const void *data, size_t len)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h;

	delete(in, "new.tmp");
	h = open(in, "new.tmp", CREATE, 0, &status);
	if (!h)
		return error_of(status);
	status = write_all(h, data, len);
	if (status != EFI_SUCCESS) {
		FW(h->Delete(h));
		return error_of(status);
	}
	delete(in, name);
	status = rename(h, name);
	close(h); /* as new.tmp, where it could not be renamed */
	return error_of(status);
}

/* -------------------------------------------------------------------- start */

static void open_volume(void)
{
	EFI_GUID guid = SIMPLE_FILE_SYSTEM_PROTOCOL;
	EFI_FILE_IO_INTERFACE *fs;

	if (!fw_loaded || !fw_loaded->DeviceHandle ||
	    fw_bs->HandleProtocol(fw_loaded->DeviceHandle, &guid, (void **)&fs) != EFI_SUCCESS)
		return;
	if (FW(fs->OpenVolume(fs, &root)) != EFI_SUCCESS)
		root = NULL;
}

/* A folder that does not exist yet: id, id-2, id-3 … */
static void make_folder(void)
{
	char id[40], path[80];
	EFI_FILE_HANDLE there;
	EFI_STATUS status;
	unsigned n = 1;

	mc_snprintf(id, sizeof(id), "%s", run_id);
	for (;;) {
		mc_snprintf(path, sizeof(path), "mcspin/%s", run_id);
		there = open(root, path, READ, 0, &status);
		if (!there)
			break;
		close(there);
		/* Without a clock all runs have one name. */
		if (++n > FOLDERS_MAX) {
			log_error = -EEXIST;
			return;
		}
		mc_snprintf(run_id, sizeof(run_id), "%s-%u", id, n);
	}
	folder = open(root, path, CREATE, EFI_FILE_DIRECTORY, &status);
	if (folder)
		log_handle = open(folder, "mcspin.log", CREATE, 0, &status);
	if (!log_handle)
		log_error = error_of(status);
}

static void read_unfinished(void)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h = open(root, "mcspin/running", READ, 0, &status);
	s64 n;

	if (!h)
		return;
	n = read_all(h, unfinished, sizeof(unfinished) - 1);
	while (n > 0 && (unfinished[n - 1] == ' ' || unfinished[n - 1] == '\n'))
		n--;
	unfinished[n > 0 ? n : 0] = 0;
	close(h);
}

void files_start(void)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h;

	if (!root)
		open_volume();
	if (!root) {
		log_error = -EROFS;
		return;
	}
	h = open(root, "mcspin", CREATE, EFI_FILE_DIRECTORY, &status);
	if (!h) {
		/* iPXE's volume answers "not found" to whoever creates: it cannot be written. */
		log_error = status == EFI_NOT_FOUND ? -EROFS : error_of(status);
		return;
	}
	close(h);
	read_unfinished();
	make_folder();
	if (folder)
		running = open(root, "mcspin/running", CREATE, 0, &status);
}

const char *files_unfinished(void)
{
	return *unfinished ? unfinished : NULL;
}

bool files_usable(void)
{
	return log_handle != NULL;
}

/* The image's path below the root of its volume, from the text parts of its device path; where the
 * last backslash lies goes to `slash`. */
static size_t image_path(char *path, size_t len, size_t *slash)
{
	size_t n = 0;

	*slash = 0;
	for (EFI_DEVICE_PATH *p = fw_loaded->FilePath; p && !IsDevicePathEnd(p);
	     p = NextDevicePathNode(p)) {
		const u8 *text = (const u8 *)p + 4; /* UTF-16, of any alignment */
		size_t bytes = DevicePathNodeLength(p);

		if (bytes < 4)
			break;
		if (DevicePathType(p) != MEDIA_DEVICE_PATH || DevicePathSubType(p) != MEDIA_FILEPATH_DP)
			continue;
		for (size_t i = 0; i + 6 <= bytes && (text[i] || text[i + 1]) && n < len - 1; i += 2) {
			path[n++] = text[i + 1] || text[i] > 0x7e ? '?' : (char)text[i];
			if (text[i] == '\\')
				*slash = n;
		}
	}
	path[n] = 0;
	return n;
}

size_t files_image_name(char *name, size_t len)
{
	char path[200];
	size_t slash, n = image_path(path, sizeof(path), &slash);

	mc_snprintf(name, len, "%s", path + slash);
	return min_of(n - slash, len - 1);
}

static EFI_FILE_HANDLE beside_image(const char *name, EFI_STATUS *status)
{
	char path[240];
	size_t slash;

	image_path(path, 200, &slash);
	mc_snprintf(path + slash, sizeof(path) - slash, "%s", name);
	return open(root, path, READ, 0, status);
}

s64 files_config(char **text)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h;
	s64 n;

	open_volume();
	if (!root)
		return 0;
	h = beside_image("mcspin.cfg", &status);
	if (!h)
		h = open(root, "mcspin.cfg", READ, 0, &status);
	if (!h)
		return 0;
	*text = platform_alloc(CONFIG_MAX);
	n = *text ? read_all(h, *text, CONFIG_MAX) : -ENOMEM;
	close(h);
	return n == CONFIG_MAX ? -E2BIG : n;
}

/* -------------------------------------------------------------------- writing */

/* Between tests, so that no timed region is near: everything that the stream has gained. */
void files_flush(void)
{
	EFI_STATUS status;
	size_t len;
	const char *log = event_log(&len);

	if (!fw_callable() || !log_handle || log_error || len <= log_written)
		return;
	status = write_all(log_handle, log + log_written, len - log_written);
	log_written = len;
	if (status != EFI_SUCCESS) {
		log_error = error_of(status);
		run_worsen(RESULT_ERROR, "mcspin.log cannot be written any more (error %d): the volume "
			   "is full or gone; the serial stream goes on", -log_error);
	}
}

void files_doing(const char *what)
{
	char text[RUNNING_BYTES + 1];
	int n;

	if (!fw_callable() || !running || log_error)
		return;
	n = mc_snprintf(text, sizeof(text), "%s, while it ran %s", run_id, what);
	n = min_of(n, RUNNING_BYTES - 1);
	memset(text + n, ' ', (size_t)(RUNNING_BYTES - n));
	text[RUNNING_BYTES - 1] = '\n';
	if (FW(running->SetPosition(running, 0)) == EFI_SUCCESS)
		write_all(running, text, RUNNING_BYTES);
}

int platform_file_write(const char *name, const void *data, size_t len)
{
	processors_alive();
	/* The referee's files are written when the boot processor is back. */
	if (!fw_callable())
		return 0;
	files_flush();
	if (!folder)
		return log_error ? log_error : -EROFS;
	return replace(folder, name, data, len);
}

s64 platform_file_read(const char *path, void *buf, size_t cap)
{
	char full[160];
	EFI_STATUS status = EFI_NOT_FOUND;
	EFI_FILE_HANDLE h = NULL;
	s64 n;

	if (!root || !fw_callable())
		return -ENOENT;
	mc_snprintf(full, sizeof(full), "mcspin/%s", path);
	h = open(root, full, READ, 0, &status);
	if (!h)
		h = open(root, path, READ, 0, &status);
	if (!h)
		return error_of(status);
	n = read_all(h, buf, cap);
	close(h);
	return n;
}

void files_end(void)
{
	files_flush();
	if (log_handle)
		close(log_handle);
	if (running)
		FW(running->Delete(running));
	if (folder)
		close(folder);
	if (root)
		close(root);
	log_handle = running = folder = root = NULL;
}
