// Registers DuckDB's TPC-H and TPC-DS generators. Their static archives come with
// duckdb-go-bindings and are linked by it, but nothing there loads them. What is needed of
// DuckDB's C++ interface is declared by hand: it fits the version in go.mod.
#include <string>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
namespace duckdb {
class DatabaseInstance;
class ExtensionActiveLoad;
enum class ExtensionInstallMode : unsigned char { UNKNOWN = 0, REPOSITORY = 1, CUSTOM_PATH = 2, STATICALLY_LINKED = 3 };
struct ExtensionInstallInfo {
	ExtensionInstallMode mode = ExtensionInstallMode::UNKNOWN;
	std::string full_path, repository_url, version, etag;
};
class ExtensionActiveLoad { // its destructor releases the extension's lock
public:
	void FinishLoad(ExtensionInstallInfo &info);
	void *db;
	std::unique_lock<std::mutex> lock;
	void *info;
	std::string name;
};
class ExtensionManager {
public:
	static ExtensionManager &Get(DatabaseInstance &db);
	std::unique_ptr<ExtensionActiveLoad> BeginLoad(const std::string &name);
};
class ExtensionLoader {
public:
	explicit ExtensionLoader(ExtensionActiveLoad &load);
	void FinalizeLoad();
	char storage[512];
};
class Extension {
public:
	virtual ~Extension();
	virtual void Load(ExtensionLoader &loader) = 0;
	virtual std::string Name() = 0;
	virtual std::string Version() const;
};
class TpchExtension : public Extension {
public:
	void Load(ExtensionLoader &loader) override;
	std::string Name() override;
	std::string Version() const override;
};
class TpcdsExtension : public Extension {
public:
	void Load(ExtensionLoader &loader) override;
	std::string Name() override;
	std::string Version() const override;
};
template <class T> static void load(DatabaseInstance &db) {
	static T ext;
	auto &m = ExtensionManager::Get(db);
	auto a = m.BeginLoad(ext.Name());
	if (!a) return;
	auto *l = new ExtensionLoader(*a); // leaked: its destructor is not exported
	ext.Load(*l);
	l->FinalizeLoad();
	ExtensionInstallInfo info;
	info.mode = ExtensionInstallMode::STATICALLY_LINKED;
	info.version = ext.Version();
	a->FinishLoad(info);
}
} // namespace duckdb
struct DuckDBObj { duckdb::DatabaseInstance *instance; };
struct DatabaseWrapper { DuckDBObj *database; };
// db is a duckdb_database (a pointer to DatabaseWrapper { shared_ptr<DuckDB> })
extern "C" int load_tpc(void *db) {
	try {
		auto *w = static_cast<DatabaseWrapper *>(db);
		duckdb::load<duckdb::TpchExtension>(*w->database->instance);
		duckdb::load<duckdb::TpcdsExtension>(*w->database->instance);
		return 0;
	} catch (std::exception &e) {
		std::fprintf(stderr, "load_tpc: %s\n", e.what());
		return 1;
	}
}
